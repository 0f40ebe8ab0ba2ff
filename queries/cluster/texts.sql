SELECT DISTINCT {number} AS number, {column} AS text FROM {rows} WHERE {condition}
