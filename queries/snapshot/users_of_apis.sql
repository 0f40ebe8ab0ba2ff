-- Users of a snapshot with an observation of each of some APIs, in one row.
SELECT {counts} FROM {snapshot}
