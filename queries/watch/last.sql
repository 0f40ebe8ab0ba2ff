-- The data that a watched decision was checked on last, and what was known of it then.
SELECT data, standing FROM watched_decision WHERE decision = $decision AND standing IS NOT NULL
