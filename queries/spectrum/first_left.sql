-- The hash of the first user, in the order of hashes of their places, who is not among so many.
SELECT hash(rowid, {seed}) AS word FROM {snapshot} ORDER BY word LIMIT 1 OFFSET {place}
