-- The values of each API, numbered from 1, with the two halves of their word, as `snapshot/value_words` makes it.
SELECT number, api, cell, code, hex_number(substr(h, 1, 8)) AS high, hex_number(substr(h, 9, 8)) AS low
FROM (
    SELECT api_number.number, api_number.api, seen.cell, sha256(api_number.api || chr(31) || seen.cell) AS h,
        row_number() OVER (PARTITION BY seen.number ORDER BY seen.cell)::INTEGER AS code
    FROM ({seen}) AS seen
    JOIN api_number ON api_number.number = seen.number
) AS numbered
