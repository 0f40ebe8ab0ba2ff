-- Which data a watched decision was checked on last: more than their last batch, as users may be forgotten and days end.
ALTER TABLE watched_decision ADD COLUMN data VARCHAR
