-- Batches that were counted.
CREATE TABLE IF NOT EXISTS received (
    id BLOB PRIMARY KEY
) WITHOUT ROWID
