-- Visits got new numbers: all that are here now may have made the lists, or anybody where that is so here or there.
INSERT OR REPLACE INTO checked_list
SELECT
    series,
    GREATEST(max(last_visit), (SELECT COALESCE(max(visit_id), -1) FROM visit)),
    first(origin ORDER BY place)
FROM (
    SELECT series, last_visit, origin, -1 AS place FROM checked_list
    UNION ALL
    SELECT series, last_visit, origin, place FROM arrived_checked_list
)
GROUP BY series
