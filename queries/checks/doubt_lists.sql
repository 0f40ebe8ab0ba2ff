-- Whoever was forgotten may come again under another number: lists that may have been decided on them take everybody for such.
UPDATE checked_list SET last_visit = $anybody WHERE last_visit >= $first
