INSERT INTO corrected_visit SELECT DISTINCT visit_id FROM corrected
