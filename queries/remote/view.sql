-- Some users of a snapshot, with some codes replaced.
SELECT {columns}, high, low FROM ({browsers}) AS browser {joins} WHERE {kept}
