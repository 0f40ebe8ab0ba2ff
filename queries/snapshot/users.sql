-- The user of each visit in the window.
SELECT user_id FROM visit WHERE {windows/inside}
