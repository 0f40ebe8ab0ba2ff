-- When the first and the last of the staged visits were that have no name.
SELECT min(moment), max(moment) FROM staged_visit
