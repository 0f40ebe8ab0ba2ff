-- A column holds an API; what was said of it before goes.
INSERT OR REPLACE INTO meta VALUES ($prefix || $column, $api)
