-- When the newest calendar window with a visit begins, of those before a moment if there is one. Where rows were added, DuckDB reads all
-- times for `max`: 0.1 s for 100 million. For the first in an order it passes over stretches that cannot hold it.
SELECT date_trunc($period, (
    SELECT "time" FROM visit
    WHERE "time" IS NOT NULL AND ($before::TIMESTAMP IS NULL OR "time" < $before)
    ORDER BY "time" DESC LIMIT 1
))
