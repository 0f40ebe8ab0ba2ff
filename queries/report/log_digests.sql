-- Digests of the logs, a half each: what copies of one under other names share.
SELECT DISTINCT left(digest, 32) FROM batch
