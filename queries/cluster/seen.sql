SELECT DISTINCT {number} AS number, {column} AS cell FROM {cells} WHERE {column} IS NOT NULL
