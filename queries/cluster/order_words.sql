-- What is mixed to order the users: word xor seed, plus 0x9E3779B97F4A7C15, modulo 2^64.
SELECT {keep}, (xor(high, {seed_high}) + 2654435769 + ((xor(low, {seed_low}) + 2135587861) >> 32)) & 4294967295 AS high,
    (xor(low, {seed_low}) + 2135587861) & 4294967295 AS low
FROM {snapshot}
