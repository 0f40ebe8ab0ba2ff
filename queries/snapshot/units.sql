-- Who the rows of a window are, by the logs that its visits came from.
SELECT DISTINCT unit FROM batch
SEMI JOIN (SELECT batch_id FROM visit WHERE {windows/inside}) AS asked USING (batch_id)
