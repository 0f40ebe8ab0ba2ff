-- What the log's source column named, for example a library and its version.
CREATE TABLE source (source_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL UNIQUE)
