-- The users that have an observation of every one of some APIs.
CREATE OR REPLACE TEMP TABLE {restricted} AS SELECT * FROM {snapshot} WHERE {present}
