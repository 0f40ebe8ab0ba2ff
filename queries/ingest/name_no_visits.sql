-- The records of a log that names neither visits nor sessions.
SELECT *, NULL::UBIGINT AS view, NULL::UBIGINT AS session FROM ({scan})
