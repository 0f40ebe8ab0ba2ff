-- What a question found in each calendar window, so that only windows that have changed are read again: null for those. `against` is
-- the begin of the window that it was compared with.
CREATE TABLE kept_window (
    question VARCHAR NOT NULL,
    period VARCHAR NOT NULL,
    since TIMESTAMP NOT NULL,
    against TIMESTAMP,
    visits BIGINT,
    first BIGINT,
    last BIGINT,
    content BLOB,
    asked_at TIMESTAMP NOT NULL
)
