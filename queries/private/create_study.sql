-- Terms that the store was made for; one row.
CREATE TABLE IF NOT EXISTS study (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    content BLOB NOT NULL
)
