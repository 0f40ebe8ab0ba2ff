-- What new visits and their sessions are called.
INSERT INTO page_view
SELECT visit_id, view, session FROM numbered_visit
WHERE NOT known AND (view IS NOT NULL OR session IS NOT NULL)
ORDER BY visit_id
