-- The users that have an observation of every one of some APIs.
SELECT * FROM {snapshot} WHERE {present}
