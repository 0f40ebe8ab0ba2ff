-- Visits of a window whose first and last number are known.
SELECT visit_id, user_id FROM visit
WHERE visit_id BETWEEN $first AND $last
    AND "time" >= $window_from
    AND "time" < $window_to
    AND ($source::VARCHAR IS NULL OR coalesce(source_id IN (SELECT source_id FROM source WHERE name = ltrim($source, '!') OR ends_with(name, ' via ' || ltrim($source, '!'))), false) <> starts_with($source, '!'))
