-- API sets that all scripts of a site read together, those of the most sites first.
SELECT apis, sum(scripts)::BIGINT AS scripts, count(*) AS sites
FROM (SELECT site, list(DISTINCT api ORDER BY api) AS apis, count(DISTINCT script) AS scripts FROM demand GROUP BY site)
GROUP BY apis
ORDER BY sites DESC, scripts DESC, apis
LIMIT $most
