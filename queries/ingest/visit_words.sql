-- Words of the visit and the session that a record names.
('0x' || left(sha256($key || ' visit ' || visit_id || ' ' || "user"), 16))::UBIGINT AS view,
('0x' || left(sha256($key || ' session ' || session_id || ' ' || "user"), 16))::UBIGINT AS session
