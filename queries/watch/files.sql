-- Files that a watch has read, or refused while logs were read in this way, as they were then.
SELECT path, size, modified, refusal IS NOT NULL AS refused FROM watched_file
WHERE refusal IS NULL OR starts_with(refusal, $reading)
