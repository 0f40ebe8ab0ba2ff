-- All visits of the user with this id.
CREATE OR REPLACE TEMP TABLE forgotten AS
SELECT visit_id FROM visit
JOIN user USING (user_id)
WHERE user.digest = {upkeep/digest_of_user}
