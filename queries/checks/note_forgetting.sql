-- The last day on which users were forgotten who may come again.
INSERT OR REPLACE INTO meta VALUES ('forgotten_on', $day)
