SELECT count(*), count(*) FILTER (known), count(*) FILTER (undated) FROM repeat
