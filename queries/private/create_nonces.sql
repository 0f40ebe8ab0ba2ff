-- Digests of nonces, against replay; nothing leads from here to a count.
CREATE TABLE IF NOT EXISTS nonces (
    ask BLOB NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (ask, digest)
) WITHOUT ROWID
