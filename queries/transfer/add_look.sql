-- Users who were looked at there are not looked at here for the first time.
INSERT OR REPLACE INTO meta SELECT 'first_look', 'past' FROM arrived_meta WHERE name = 'first_look'
