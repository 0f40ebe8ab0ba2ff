($window_from::TIMESTAMP IS NULL OR "time" >= $window_from)
AND ($window_to::TIMESTAMP IS NULL OR "time" < $window_to)
-- `!NAME` stands for everything but what came by NAME, records without a source included.
AND ($source::VARCHAR IS NULL OR coalesce(visit.source_id IN (SELECT source_id FROM source WHERE name = ltrim($source, '!') OR ends_with(name, ' via ' || ltrim($source, '!'))), false) <> starts_with($source, '!'))
