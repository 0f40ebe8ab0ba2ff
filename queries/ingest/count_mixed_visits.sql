-- Visits of which two of the logs that are staged together tell, or an earlier log.
SELECT
    (SELECT count(*) FROM numbered_visit WHERE known),
    (
        SELECT count(*)
        FROM (
            SELECT visit_id
            FROM repeat
            ASOF JOIN staged_log ON repeat.row >= staged_log.first_row
            GROUP BY visit_id
            HAVING count(DISTINCT staged_log.batch_id) > 1
        )
    )
