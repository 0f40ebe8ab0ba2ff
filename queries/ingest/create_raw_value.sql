-- What the codes in the columns of staged records stand for, as it stands in the log.
CREATE OR REPLACE TEMP TABLE raw_value (place UINTEGER, code UINTEGER, api VARCHAR, status VARCHAR, raw VARCHAR, is_json BOOLEAN)
