-- Visits of a long batch as they are stored: what was observed of one user at one time, users by keyed digest.
SELECT substr(sha256($key || "user"), 1, 16) AS "user", moment, source, $batch AS batch, {cells}
FROM (
    SELECT cells."user", moment, source, api_number.number, status || chr(31) || COALESCE({text}, chr(30)) AS cell
    FROM cells JOIN api_number ON api_number.api = cells.api {joins}
) AS observed
GROUP BY "user", moment, source
