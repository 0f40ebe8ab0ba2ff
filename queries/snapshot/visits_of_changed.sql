-- All visits of the window of those users of whom an observation was stored after a row, in the order of their number.
SELECT visit_id, user_id, "time" FROM visit
SEMI JOIN (
    SELECT user_id FROM visit
    SEMI JOIN (SELECT visit_id FROM observation WHERE rowid > $last) AS fresh USING (visit_id)
) AS changed USING (user_id)
WHERE {windows/inside}
ORDER BY visit_id
