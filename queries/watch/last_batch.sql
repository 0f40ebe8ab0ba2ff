-- The last batch that a watched decision was checked on.
SELECT last_batch FROM watched_decision WHERE decision = $decision
