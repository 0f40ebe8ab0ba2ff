-- Wide records as numbers of values, some columns at a time.
CREATE OR REPLACE TEMP TABLE coded AS
SELECT staged_record.row, staged_record.visit_id, staged_record.known, staged_record.fresh, {columns}
FROM staged
JOIN staged_record ON staged_record.row = staged.rowid
{joins}
