-- Sums of both halves as one 64-bit word.
SELECT {columns}, (high + (low >> 32)) & 4294967295 AS high, low & 4294967295 AS low FROM ({words}) AS summed
