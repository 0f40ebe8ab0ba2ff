INSERT INTO kept_window
SELECT question, period, since, NULL, NULL, NULL, NULL, NULL, $kept_at
FROM changed_window
JOIN (SELECT DISTINCT question, period FROM kept_window) USING (period)
ANTI JOIN kept_window USING (question, period, since)
