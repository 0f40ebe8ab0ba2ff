-- API sets that one script reads on one site, those of the most sites first.
SELECT apis, count(DISTINCT script) AS scripts, count(DISTINCT site) AS sites
FROM (SELECT site, script, list(DISTINCT api ORDER BY api) AS apis FROM demand GROUP BY site, script)
GROUP BY apis
ORDER BY sites DESC, scripts DESC, apis
LIMIT $most
