-- The newest windows whose evidence the runs of a list have taken in, up to one, and these runs.
SELECT since, run FROM checked_window
WHERE series = $series AND run IS NOT NULL AND ($until::TIMESTAMP IS NULL OR since <= $until)
ORDER BY since DESC LIMIT $most
