-- Digests of uploads that were passed on, against replay.
CREATE TABLE IF NOT EXISTS taken (
    ask BLOB NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (ask, digest)
) WITHOUT ROWID
