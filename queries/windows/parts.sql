-- Batches or sources with visits in a window: what each is called, how many visits, and between which numbers these lie.
SELECT visit.{part} AS part, any_value({table}.{label}) AS label, count(*) AS visits, min(visit_id) AS first, max(visit_id) AS last
FROM visit LEFT JOIN {table} ON {table}.{part} = visit.{part}
WHERE {windows/inside}
GROUP BY visit.{part}
ORDER BY first
