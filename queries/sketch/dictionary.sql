SELECT cell, {word} FROM (SELECT DISTINCT {column} AS cell FROM {relation} WHERE {column} IS NOT NULL) AS cells
