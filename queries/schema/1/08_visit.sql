-- A user seen by one source at one time; all observations of a visit share its row.
CREATE TABLE visit (visit_id INTEGER NOT NULL, user_id INTEGER NOT NULL, time TIMESTAMP, source_id INTEGER, batch_id INTEGER NOT NULL)
