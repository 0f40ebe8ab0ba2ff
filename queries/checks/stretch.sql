-- The number of the first visit of a window.
SELECT min(visit_id) FROM visit WHERE {windows/inside}
