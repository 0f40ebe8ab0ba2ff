-- Users by what they hold of one set of an ask.
CREATE TABLE IF NOT EXISTS counts (
    ask BLOB NOT NULL,
    set_index INTEGER NOT NULL,
    tokens TEXT NOT NULL,
    users INTEGER NOT NULL,
    PRIMARY KEY (ask, set_index, tokens)
) WITHOUT ROWID
