INSERT OR REPLACE INTO meta VALUES ('first_look', $state)
