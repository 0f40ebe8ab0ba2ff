-- Which script read which API on which site, and how often; values that a crawler saw are not kept.
CREATE TABLE demand (batch_id INTEGER NOT NULL, site VARCHAR NOT NULL, script VARCHAR NOT NULL, api VARCHAR NOT NULL, calls BIGINT NOT NULL)
