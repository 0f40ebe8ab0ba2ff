-- On how many sites each API is read.
SELECT api, count(DISTINCT site) AS sites FROM demand GROUP BY api
