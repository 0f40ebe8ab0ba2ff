SELECT DISTINCT {column} FROM {relation} WHERE {column} IS NOT NULL
