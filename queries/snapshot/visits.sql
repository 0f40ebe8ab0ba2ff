-- Visits of the window in the order of their number.
SELECT visit_id, user_id, "time" FROM visit
WHERE ($window_from::TIMESTAMP IS NULL OR "time" >= $window_from)
    AND ($window_to::TIMESTAMP IS NULL OR "time" < $window_to)
    AND ($source::VARCHAR IS NULL OR coalesce(source_id IN (SELECT source_id FROM source WHERE name = ltrim($source, '!') OR ends_with(name, ' via ' || ltrim($source, '!'))), false) <> starts_with($source, '!'))
ORDER BY visit_id
