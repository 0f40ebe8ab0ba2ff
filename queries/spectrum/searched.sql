-- Codes of the users that a hash of their place chooses.
SELECT {columns} FROM {snapshot} WHERE hash(rowid, {seed}) < {first} ORDER BY rowid
