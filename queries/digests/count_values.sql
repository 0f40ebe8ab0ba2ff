SELECT count(*) FROM value
