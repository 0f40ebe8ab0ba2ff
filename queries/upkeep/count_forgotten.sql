SELECT count(*), min(visit_id), max("time") FROM visit SEMI JOIN forgotten USING (visit_id)
