-- The data that a watched decision was checked on last.
SELECT data FROM watched_decision WHERE decision = $decision
