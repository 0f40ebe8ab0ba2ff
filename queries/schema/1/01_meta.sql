-- Settings of the database: schema version and the key of the user digests.
CREATE TABLE meta (name VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)
