-- API names are data, never identifiers: they may hold dots, quotes, or differ only in case.
CREATE TABLE api (api_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL UNIQUE)
