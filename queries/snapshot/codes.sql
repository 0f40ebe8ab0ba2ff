SELECT {columns} FROM {snapshot}
