-- A table was fetched whole up to this moment.
INSERT OR REPLACE INTO meta VALUES ('fetched:' || $label, $newest)
