-- Batches or sources with visits in a window: what each is called, how many visits, and between which numbers these lie.
SELECT visit.{part} AS part, any_value({table}.{label}) AS label, count(*) AS visits, min(visit_id) AS first, max(visit_id) AS last
FROM visit LEFT JOIN {table} ON {table}.{part} = visit.{part}
WHERE ($window_from::TIMESTAMP IS NULL OR "time" >= $window_from)
    AND ($window_to::TIMESTAMP IS NULL OR "time" < $window_to)
    AND ($source::VARCHAR IS NULL OR coalesce(visit.source_id IN (SELECT source_id FROM source WHERE name = ltrim($source, '!') OR ends_with(name, ' via ' || ltrim($source, '!'))), false) <> starts_with($source, '!'))
GROUP BY visit.{part}
ORDER BY first
