-- Visits that may have made a list, up to which number; and the first window that it was checked on.
SELECT last_visit, origin FROM checked_list WHERE series = $series
