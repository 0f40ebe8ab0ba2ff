INSERT INTO kept_window
SELECT question, period, since, NULL, NULL, NULL, NULL, NULL, asked_at
FROM changed_window
JOIN (SELECT question, period, max(asked_at) AS asked_at FROM kept_window GROUP BY question, period) USING (period)
ANTI JOIN kept_window USING (question, period, since)
