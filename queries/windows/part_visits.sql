-- Visits of a batch or a source in a window, whose first and last number are known.
SELECT visit_id, user_id FROM visit
WHERE visit_id BETWEEN $first AND $last
    AND {part} IS NOT DISTINCT FROM $part
    AND ($window_from::TIMESTAMP IS NULL OR "time" >= $window_from)
    AND ($window_to::TIMESTAMP IS NULL OR "time" < $window_to)
    AND ($source::VARCHAR IS NULL OR coalesce(source_id IN (SELECT source_id FROM source WHERE name = ltrim($source, '!') OR ends_with(name, ' via ' || ltrim($source, '!'))), false) <> starts_with($source, '!'))
