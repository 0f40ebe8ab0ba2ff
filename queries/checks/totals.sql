-- Windows, passes and violations of a list.
SELECT count(*), count(*) FILTER (passed), count(*) FILTER (violated) FROM checked_window WHERE series = $series
