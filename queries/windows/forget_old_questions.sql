-- Windows of all questions but those that were asked last.
DELETE FROM kept_window
WHERE question NOT IN (SELECT question FROM kept_window GROUP BY question ORDER BY max(asked_at) DESC, question LIMIT $most)
