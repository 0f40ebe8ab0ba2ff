-- The accounts of the newest logs, the oldest of these first.
SELECT account
FROM (SELECT batch_id, account FROM batch WHERE account IS NOT NULL ORDER BY batch_id DESC LIMIT 100)
ORDER BY batch_id
