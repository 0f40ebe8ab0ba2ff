-- Changes of the verdict on a watched decision, and whether they were delivered.
CREATE TABLE notice (
    notice_id INTEGER PRIMARY KEY,
    decision VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL,
    body VARCHAR NOT NULL,
    delivered BOOLEAN NOT NULL
)
