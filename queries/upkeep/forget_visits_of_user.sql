-- All visits of the user with this id.
CREATE OR REPLACE TEMP TABLE forgotten AS
SELECT visit_id FROM visit
JOIN user USING (user_id)
WHERE user.digest = ('0x' || sha256($key || $user)[:16])::UBIGINT
