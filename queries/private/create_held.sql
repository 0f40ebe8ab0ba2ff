-- Messages for the recipient by the digests of their uploads: the order of arrival is not kept.
CREATE TABLE IF NOT EXISTS held (
    ask BLOB NOT NULL,
    digest BLOB NOT NULL,
    frame BLOB NOT NULL,
    PRIMARY KEY (ask, digest)
) WITHOUT ROWID
