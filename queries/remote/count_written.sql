-- Users of a batch that was written.
SELECT count(DISTINCT "user") AS users FROM written
