-- Visits that may have made a list, up to which number; the first window that it was checked on; which windows count in its runs.
SELECT last_visit, origin, {checks/runs_after} FROM checked_list WHERE series = $series
