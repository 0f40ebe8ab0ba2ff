-- The newest window whose evidence the runs of a list have taken in, and these runs.
SELECT since, run FROM checked_window WHERE series = $series AND run IS NOT NULL ORDER BY since DESC LIMIT 1
