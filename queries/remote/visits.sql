-- The visits in a window.
SELECT * FROM observation
WHERE ($since IS NULL OR moment >= $since) AND ($until IS NULL OR moment < $until) AND ($source IS NULL OR source = $source)
