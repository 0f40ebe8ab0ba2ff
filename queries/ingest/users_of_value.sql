-- Users who have a value in a column of a wide log.
SELECT count(DISTINCT staged.digest)
FROM ({values}) AS log_value
JOIN canonical_value ON canonical_value.raw = log_value.{column} AND canonical_value.api_id = $api::INTEGER AND canonical_value.text = $text
JOIN staged ON staged.rowid = log_value.log_row
