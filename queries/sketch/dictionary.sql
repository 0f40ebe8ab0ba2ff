-- The word of each of few values.
SELECT {column} AS value, {word} AS word FROM (SELECT DISTINCT {column} FROM {relation} AS fingerprint) AS found
