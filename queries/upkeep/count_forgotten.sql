SELECT count(*), min(visit_id) FROM forgotten
