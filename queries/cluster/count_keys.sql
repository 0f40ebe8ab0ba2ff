-- Users by the first 16 bits of their key.
SELECT first_bits, count(*) AS users FROM (SELECT high >> 16 AS first_bits FROM ({keys}) AS keyed) AS shortened GROUP BY first_bits
