-- Users by keyed digest of their id; the id itself is not stored.
CREATE TABLE user (user_id INTEGER NOT NULL, digest UBIGINT NOT NULL)
