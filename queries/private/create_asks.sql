-- Questions that are known, by the digest of their bytes.
CREATE TABLE IF NOT EXISTS asks (
    id BLOB PRIMARY KEY,
    content BLOB NOT NULL,
    closed INTEGER NOT NULL,
    added REAL NOT NULL -- seconds since 1970
) WITHOUT ROWID
