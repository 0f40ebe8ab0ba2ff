-- Logs that brought users, also those that are forgotten by now.
SELECT count(*) FROM batch WHERE stored > 0
