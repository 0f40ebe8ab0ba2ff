SELECT {columns} FROM {snapshot} ORDER BY rowid
