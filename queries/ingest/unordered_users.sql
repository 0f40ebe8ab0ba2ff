-- Users with rows without a time that tell different values of an API: the last in the log, or of the last log, counts.
SELECT count(DISTINCT digest) FROM numbered_visit SEMI JOIN unordered_visit USING (visit_id)
