-- Between which numbers the visits of a window lie, and the highest number of a user.
SELECT min(visit_id), max(visit_id), (SELECT max(user_id) FROM visit) FROM visit WHERE {windows/inside}
