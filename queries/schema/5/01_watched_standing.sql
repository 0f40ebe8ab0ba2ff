-- What is known of a watched decision, as JSON: certain verdicts last until another one is certain.
ALTER TABLE watched_decision ADD COLUMN standing VARCHAR
