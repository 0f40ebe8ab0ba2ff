-- Snapshots that were made; valid until another batch arrives.
CREATE TABLE snapshot (
    snapshot_id INTEGER PRIMARY KEY,
    window_from TIMESTAMP,
    window_to TIMESTAMP,
    last_batch INTEGER NOT NULL,
    users BIGINT NOT NULL,
    visits BIGINT NOT NULL,
    digest VARCHAR NOT NULL
)
