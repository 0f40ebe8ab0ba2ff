-- One row per stored log of what scripts read; the digest of its bytes makes storing idempotent.
CREATE TABLE demand_batch (
    batch_id INTEGER PRIMARY KEY,
    digest VARCHAR NOT NULL UNIQUE,
    source VARCHAR NOT NULL,
    collector VARCHAR NOT NULL,
    stored_at TIMESTAMP NOT NULL,
    read BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    rejected BIGINT NOT NULL
)
