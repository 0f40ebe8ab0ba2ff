-- The records of a log with words of the visit and the session that they name.
SELECT
    *,
    ('0x' || left(sha256($key || ' visit ' || visit_id || ' ' || "user"), 16))::UBIGINT AS view,
    ('0x' || left(sha256($key || ' session ' || session_id || ' ' || "user"), 16))::UBIGINT AS session
FROM ({scan})
