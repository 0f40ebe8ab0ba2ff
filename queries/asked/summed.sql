-- Beside each size of groups: the users in groups of fewer than {k}, all users, whether it is the first by size, whether it may be told.
SELECT place, lacking, size, number, few, everyone, size * 2 + 1 - lacking = first_by AS is_first,
    few >= {k} OR few + top >= {enough} AS is_told
FROM (
    SELECT place, lacking, size, number,
        (sum(CASE WHEN size < {k} THEN size * number ELSE 0 END) OVER (PARTITION BY place))::BIGINT AS few,
        (sum(size * number) OVER (PARTITION BY place))::BIGINT AS everyone,
        max(size * 2 + 1 - lacking) OVER (PARTITION BY place) AS first_by,
        max(size) OVER (PARTITION BY place) AS top
    FROM counted
) AS beside
