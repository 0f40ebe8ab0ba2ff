-- The last batch that a watched decision was checked on.
CREATE TABLE watched_decision (decision VARCHAR PRIMARY KEY, last_batch INTEGER NOT NULL)
