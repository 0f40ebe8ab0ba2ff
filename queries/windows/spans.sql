-- Calendar windows that hold visits: when each begins, how many visits, and between which numbers these lie.
SELECT date_trunc($period, "time") AS since, count(*) AS visits, min(visit_id) AS first, max(visit_id) AS last
FROM visit
WHERE "time" IS NOT NULL
    AND ($window_from::TIMESTAMP IS NULL OR "time" >= $window_from)
    AND ($window_to::TIMESTAMP IS NULL OR "time" < $window_to)
    AND ($source::VARCHAR IS NULL OR coalesce(source_id IN (SELECT source_id FROM source WHERE name = ltrim($source, '!') OR ends_with(name, ' via ' || ltrim($source, '!'))), false) <> starts_with($source, '!'))
GROUP BY ALL
ORDER BY since
