-- Which logs are stored, as a log that follows a forgotten one gets its number, and how many visits and observations.
SELECT
    (SELECT md5(string_agg(digest, ' ' ORDER BY batch_id)) FROM batch),
    (SELECT count(*) FROM visit),
    (SELECT count(*) FROM observation)
