-- The APIs of a staged long log, in order of first appearance.
SELECT api FROM raw_value GROUP BY api ORDER BY min(code) LIMIT $most
