-- Visits got new numbers: all that are here now may have made the lists.
INSERT OR REPLACE INTO checked_list
SELECT series, (SELECT COALESCE(max(visit_id), -1) FROM visit), first(origin ORDER BY place)
FROM (
    SELECT series, origin, -1 AS place FROM checked_list
    UNION ALL
    SELECT series, origin, place FROM arrived_checked_list
)
GROUP BY series
