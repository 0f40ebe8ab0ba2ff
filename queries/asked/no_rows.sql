SELECT * FROM {relation} LIMIT 0
