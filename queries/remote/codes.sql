-- One row a user: the code of each API, 0 for absent, and the sum of the words of the values.
SELECT {columns},
    (sum(high)::BIGINT + (sum(low)::BIGINT >> 32)) & 4294967295 AS high,
    sum(low)::BIGINT & 4294967295 AS low
FROM latest JOIN dictionary ON dictionary.api = latest.api AND dictionary.cell = latest.cell
GROUP BY latest."user"
