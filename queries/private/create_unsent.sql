-- Batches that no recipient has acknowledged yet.
CREATE TABLE IF NOT EXISTS unsent (
    id BLOB PRIMARY KEY,
    ask BLOB NOT NULL,
    content BLOB NOT NULL
)
