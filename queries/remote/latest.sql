-- Latest value of every API of every user in a window; of equal times that of the later batch, then the greater one.
SELECT "user", api, status || chr(31) || COALESCE(text, chr(30)) AS cell
FROM (
    SELECT "user", api, status, text,
        row_number() OVER (
            PARTITION BY "user", api
            ORDER BY COALESCE(moment, -9223372036854775807) DESC, batch DESC, status DESC, COALESCE(text, '') DESC
        ) AS place
    FROM observation
    WHERE ($since IS NULL OR moment >= $since) AND ($until IS NULL OR moment < $until) AND ($source IS NULL OR source = $source)
) AS ranked
WHERE place = 1
