-- What was kept of rejected records may be of anybody.
UPDATE reject SET excerpt = NULL
