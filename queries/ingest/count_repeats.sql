SELECT count(*), count(*) FILTER (known) FROM repeat
