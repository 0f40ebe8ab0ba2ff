-- The distinct values of the log as they stand in it, before they are brought to one form.
CREATE OR REPLACE TEMP TABLE raw_value (api_id INTEGER, status VARCHAR, raw VARCHAR, is_json BOOLEAN)
