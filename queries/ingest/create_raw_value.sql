-- The different values of each log as they stand in it, before they are brought to one form: how many records have each, and its code
-- if it was coded while it was read.
CREATE OR REPLACE TEMP TABLE raw_value (log INTEGER, api_id INTEGER, status VARCHAR, raw VARCHAR, is_json BOOLEAN, code UINTEGER, records BIGINT)
