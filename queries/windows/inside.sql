($window_from::TIMESTAMP IS NULL OR "time" >= $window_from)
AND ($window_to::TIMESTAMP IS NULL OR "time" < $window_to)
AND ($source::VARCHAR IS NULL OR visit.source_id IN (SELECT source_id FROM source WHERE name = $source OR ends_with(name, ' via ' || $source)))
