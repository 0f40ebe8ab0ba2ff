-- Rows, those that name a user, and different users.
SELECT count(*)::BIGINT AS records, count(person)::BIGINT AS named, count(DISTINCT person)::BIGINT AS users FROM ({all_rows}) AS visit WHERE person IS NULL OR ({condition})
