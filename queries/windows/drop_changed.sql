-- What is known of windows that have changed, or were compared with one that has.
UPDATE kept_window SET content = NULL, against = NULL
WHERE (period, since) IN (SELECT period, since FROM changed_window) OR (period, against) IN (SELECT period, since FROM changed_window)
