-- Users of a snapshot without an observation of one API.
SELECT count(*) FROM {snapshot} WHERE {column} = 0
