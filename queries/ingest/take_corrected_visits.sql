-- A visit belongs to the log that told it last.
UPDATE visit SET batch_id = $batch WHERE visit_id IN (SELECT visit_id FROM corrected_visit)
