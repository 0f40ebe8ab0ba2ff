-- Of which log each record is that is staged together with others.
UPDATE staged SET log = len(list_filter($first_rows::BIGINT[], lambda first: first <= staged.rowid)) - 1
