-- How far the numbers of batches have come, and how many visits and observations are stored.
SELECT
    (SELECT COALESCE(max(batch_id), 0) FROM batch),
    (SELECT count(*) FROM visit),
    (SELECT count(*) FROM observation)
