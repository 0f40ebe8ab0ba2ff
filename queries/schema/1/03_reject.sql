-- Records that could not be stored: where, why, and the beginning of the record.
CREATE TABLE reject (batch_id INTEGER NOT NULL, line BIGINT, reason VARCHAR NOT NULL, excerpt VARCHAR)
