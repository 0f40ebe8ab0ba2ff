-- The last day on which users were forgotten; none where none were.
SELECT value FROM meta WHERE name = 'forgotten_on'
