SELECT COALESCE(max(visit_id), 0) FROM visit
