-- All rows of a table of an export, as they are.
INSERT INTO {table} BY NAME SELECT * EXCLUDE (place) FROM {arrived} ORDER BY place
