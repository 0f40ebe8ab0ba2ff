SELECT word FROM {snapshot} ORDER BY rowid
