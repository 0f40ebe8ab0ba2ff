INSERT INTO kept_until SELECT (SELECT COALESCE(max(visit_id), 0) FROM visit), (SELECT count(*) FROM observation)
