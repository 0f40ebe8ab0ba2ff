-- Users of each source, and the visits that have a value of each API.
SELECT source, count(DISTINCT "user") AS users, {counts} FROM observation WHERE source IS NOT NULL GROUP BY source
