SELECT DISTINCT api FROM observation
