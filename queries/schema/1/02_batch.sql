-- One row per ingested file; the digest of its bytes makes ingest idempotent.
CREATE TABLE batch (
    batch_id INTEGER PRIMARY KEY,
    digest VARCHAR NOT NULL UNIQUE,
    source VARCHAR NOT NULL,
    collector VARCHAR NOT NULL,
    ingested_at TIMESTAMP NOT NULL,
    read BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    duplicates BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    users BIGINT NOT NULL,
    apis BIGINT NOT NULL,
    seconds DOUBLE NOT NULL
)
