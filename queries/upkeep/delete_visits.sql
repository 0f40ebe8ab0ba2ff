DELETE FROM visit WHERE visit_id IN (SELECT visit_id FROM forgotten)
