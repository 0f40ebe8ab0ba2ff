SELECT count(*) > 0 FROM kept WHERE known
