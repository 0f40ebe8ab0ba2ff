-- Between which numbers the visits of a window lie.
SELECT min(visit_id), max(visit_id) FROM visit WHERE {windows/inside}
