-- The values of some APIs, numbered from 1.
SELECT number, cell, row_number() OVER (PARTITION BY number ORDER BY cell)::INTEGER AS code FROM ({seen}) AS seen
