-- The dictionary: the values of each API, numbered from 1 in order of first appearance.
CREATE TABLE value (api_id INTEGER NOT NULL, value_id INTEGER NOT NULL, status VARCHAR NOT NULL, text VARCHAR)
