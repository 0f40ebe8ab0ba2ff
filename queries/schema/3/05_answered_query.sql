-- Exact counts that readers have had answered, by digests of what they asked.
CREATE TABLE answered_query (
    reader VARCHAR NOT NULL,
    query VARCHAR NOT NULL,
    answered_at TIMESTAMP NOT NULL,
    PRIMARY KEY (reader, query)
)
