-- Users who were forgotten and are not stored again, by keyed digest of their id.
CREATE TABLE forgotten_user (digest UBIGINT PRIMARY KEY)
