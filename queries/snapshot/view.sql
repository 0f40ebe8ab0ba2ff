-- Some rows of a snapshot in their order, with some columns replaced.
CREATE OR REPLACE TEMP TABLE {view} AS
SELECT {snapshot}.* {changes}
FROM {snapshot}
JOIN changed ON changed.position = {snapshot}.rowid
ORDER BY changed.position
