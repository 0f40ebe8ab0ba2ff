INSERT INTO visit
SELECT visit_id, user_id, "time", source_id, $batch FROM numbered_visit WHERE NOT known ORDER BY visit_id
