-- The newest moment of a table that was fetched whole.
SELECT value FROM meta WHERE name = 'fetched:' || $label
