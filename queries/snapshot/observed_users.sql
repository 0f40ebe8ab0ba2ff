-- Users with an observation in the window: the rows of a snapshot, in their order.
SELECT DISTINCT user_id FROM visit
SEMI JOIN observation USING (visit_id)
WHERE ($window_from::TIMESTAMP IS NULL OR "time" >= $window_from)
    AND ($window_to::TIMESTAMP IS NULL OR "time" < $window_to)
    AND ($source::VARCHAR IS NULL OR coalesce(source_id IN (SELECT source_id FROM source WHERE name = ltrim($source, '!') OR ends_with(name, ' via ' || ltrim($source, '!'))), false) <> starts_with($source, '!'))
ORDER BY user_id
