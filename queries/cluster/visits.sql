-- Different visits: the same visit in two overlapping logs is one.
SELECT DISTINCT * FROM {visits}
