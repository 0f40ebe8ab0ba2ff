-- Sum of the hashes of each user's values modulo 2^64, in two halves.
SELECT {keep}, (high + (low >> 32)) & 4294967295 AS high, low & 4294967295 AS low
FROM (SELECT {keep}, {high} AS high, {low} AS low FROM ({hashes}) AS hashed) AS summed
