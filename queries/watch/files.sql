-- Files that a watch has read or refused, as they were then.
SELECT path, size, modified FROM watched_file
