-- Calendar windows that hold visits: when each begins, how many visits, and between which numbers these lie.
SELECT date_trunc($period, "time") AS since, count(*) AS visits, min(visit_id) AS first, max(visit_id) AS last
FROM visit
WHERE "time" IS NOT NULL
    AND {windows/inside}
GROUP BY ALL
ORDER BY since
