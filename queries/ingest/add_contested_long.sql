INSERT INTO contested
SELECT staged_record.row, staged_record.visit_id, staged_record.known, api.api_id, coded_value.value_id
FROM staged
JOIN staged_record ON staged_record.row = staged.rowid
JOIN api ON api.name = staged.api
JOIN coded_value
    ON coded_value.api_id = api.api_id
    AND coded_value.status = staged.status
    AND coded_value.raw IS NOT DISTINCT FROM staged.value
