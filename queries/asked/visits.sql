SELECT {columns} FROM {table} AS v WHERE {condition}
