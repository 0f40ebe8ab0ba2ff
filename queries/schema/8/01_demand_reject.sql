-- Records of demand logs that could not be stored: where, why, and the form of their beginning.
CREATE TABLE demand_reject (batch_id INTEGER NOT NULL, line BIGINT, reason VARCHAR NOT NULL, excerpt VARCHAR)
