SELECT count(*) FROM forgotten
