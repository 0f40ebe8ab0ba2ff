-- The source and the user of each visit with a source in a window whose first and last visit are known.
SELECT source_id, user_id FROM visit
WHERE visit_id BETWEEN $first AND $last AND source_id IS NOT NULL AND {windows/inside}
