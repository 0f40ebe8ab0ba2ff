-- Add to each word its occurrence times 0x9E3779B97F4A7C15, modulo 2^64.
SELECT {columns}, (high + added_high + ((low + added_low) >> 32)) & 4294967295 AS high, (low + added_low) & 4294967295 AS low
FROM (
    SELECT {columns}, high, low,
        (((occurrence * 31765 + ((occurrence * 32586) & 4294967295) * 65536) >> 32) + ((occurrence * 32586) >> 32) * 65536
            + occurrence * 31161 + ((occurrence * 40503) & 65535) * 65536) & 4294967295 AS added_high,
        (occurrence * 31765 + ((occurrence * 32586) & 4294967295) * 65536) & 4294967295 AS added_low
    FROM ({words}) AS counted
) AS added
