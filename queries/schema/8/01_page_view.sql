-- Visits that their senders named: a word of the name, by which they are found again whenever they are told of, and one of the session
-- of the browser. Both follow from the user as well, so that they join nothing of two users.
CREATE TABLE page_view (visit_id INTEGER NOT NULL, view UBIGINT, session UBIGINT)
