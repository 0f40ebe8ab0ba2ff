-- The different values of each log as they stand in it, before they are brought to one form, and how many records have each.
CREATE OR REPLACE TEMP TABLE raw_value (log INTEGER, api_id INTEGER, status VARCHAR, raw VARCHAR, is_json BOOLEAN, records BIGINT)
