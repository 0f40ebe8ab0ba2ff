-- Visits with a time in a window, and between which numbers these lie.
SELECT count(*), min(visit_id), max(visit_id) FROM visit WHERE "time" IS NOT NULL AND {windows/inside}
