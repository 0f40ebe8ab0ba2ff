-- Checks of a decision that share its delta: within a horizon each look at other data is one.
CREATE TABLE certified_check (
    decision VARCHAR NOT NULL,
    horizon INTEGER NOT NULL,
    number INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    checked_at TIMESTAMP NOT NULL,
    PRIMARY KEY (decision, horizon, number)
)
