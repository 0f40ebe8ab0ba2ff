-- The APIs of a staged long log, in order of first appearance.
SELECT api FROM staged WHERE problem IS NULL GROUP BY api ORDER BY min(rowid) LIMIT $most
