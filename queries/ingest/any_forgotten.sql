SELECT count(*) FROM forgotten_user
