-- Messages by what became of them; an ask that is not known is the empty one.
CREATE TABLE IF NOT EXISTS tally (
    ask BLOB NOT NULL,
    outcome TEXT NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (ask, outcome)
) WITHOUT ROWID
