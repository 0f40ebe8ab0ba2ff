-- Mix 64-bit words one to one (finaliser of SplitMix), each in two halves, as engines have no unsigned 64-bit numbers.
-- A product modulo 2^64 is summed over the 16-bit digits of the constant, so that no number leaves 63 bits.
SELECT {keep}, xor(high, high >> 31) AS high, xor(low, (low >> 31) + (high & 2147483647) * 2) AS low
FROM (
    SELECT {keep},
        (((low * 4587 + ((low * 4913) & 4294967295) * 65536) >> 32) + ((low * 4913) >> 32) * 65536 + low * 18875
            + ((low * 38096) & 65535) * 65536 + high * 4587 + ((high * 4913) & 65535) * 65536) & 4294967295 AS high,
        (low * 4587 + ((low * 4913) & 4294967295) * 65536) & 4294967295 AS low
    FROM (
        SELECT {keep}, xor(high, high >> 27) AS high, xor(low, (low >> 27) + (high & 134217727) * 32) AS low
        FROM (
            SELECT {keep},
                (((low * 58809 + ((low * 7396) & 4294967295) * 65536) >> 32) + ((low * 7396) >> 32) * 65536 + low * 18285
                    + ((low * 48984) & 65535) * 65536 + high * 58809 + ((high * 7396) & 65535) * 65536) & 4294967295 AS high,
                (low * 58809 + ((low * 7396) & 4294967295) * 65536) & 4294967295 AS low
            FROM (
                SELECT {keep}, xor(high, high >> 30) AS high, xor(low, (low >> 30) + (high & 1073741823) * 4) AS low
                FROM ({words}) AS w0
            ) AS w1
        ) AS w2
    ) AS w3
) AS w4
