DELETE FROM user WHERE user_id NOT IN (SELECT user_id FROM visit)
