SELECT DISTINCT {number} AS number, {column} AS cell FROM visits WHERE {column} IS NOT NULL
