-- Windows that a list was checked on, each once: its number, the evidence that was asked for and found (nats), and what came out.
CREATE TABLE checked_window (
    series VARCHAR NOT NULL,
    label VARCHAR NOT NULL,
    number INTEGER NOT NULL,
    since TIMESTAMP,
    terms VARCHAR NOT NULL,
    within VARCHAR NOT NULL,
    above VARCHAR NOT NULL,
    passed BOOLEAN NOT NULL,
    violated BOOLEAN NOT NULL,
    run VARCHAR,
    checked_at TIMESTAMP NOT NULL,
    PRIMARY KEY (series, label)
)
