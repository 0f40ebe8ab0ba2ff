-- Latest code of every API of every user; of equal times that of the later batch, then the greater one.
SELECT {newest}
FROM (
    SELECT coded_visit.*, rank() OVER (PARTITION BY "user" ORDER BY COALESCE(moment, -9223372036854775807), batch)::BIGINT AS place
    FROM coded_visit
) AS ranked
GROUP BY "user"
