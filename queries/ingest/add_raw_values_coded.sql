-- Distinct values of the APIs that share one coded column; materialised, since DuckDB 1.5 hands filters on to Arrow.
INSERT INTO raw_value
WITH known AS MATERIALIZED (SELECT position, code, raw FROM dictionary)
SELECT found.log, list_extract($apis::INTEGER[], known.position::BIGINT + 1), 'value', known.raw, $json::BOOLEAN, code, found.records
FROM (SELECT log, {column} AS code, count(*) AS records FROM ({values}) GROUP BY ALL) AS found
JOIN known USING (code)
