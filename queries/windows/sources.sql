-- Users of each source in a window whose first and last visit are known.
SELECT source.name, count(DISTINCT user_id) FROM visit JOIN source USING (source_id)
WHERE visit_id BETWEEN $first AND $last AND {windows/inside}
GROUP BY source.name ORDER BY source.name
