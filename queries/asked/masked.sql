-- Groups of fewer than {k} users as one sum. Where it is less than {k}, it is {less} whatever it is, and the largest group has the rest.
SELECT place, lacking, size AS smallest, size AS largest, (size * (number - CASE WHEN is_first AND few < {k} THEN 1 ELSE 0 END))::BIGINT AS inside
FROM summed WHERE size >= {k} AND is_told
UNION ALL
SELECT place, lacking, size + few - {less} AS smallest, size + few AS largest, size + few - {less} AS inside
FROM summed WHERE is_first AND few < {k} AND is_told
UNION ALL
SELECT place, 0::BIGINT AS lacking, 1::BIGINT AS smallest, (CASE WHEN few < {k} THEN size + few ELSE {less} END)::BIGINT AS largest,
    (CASE WHEN few < {k} THEN {less} ELSE few END)::BIGINT AS inside
FROM summed WHERE is_first AND is_told
UNION ALL
SELECT place, 0::BIGINT AS lacking, 1::BIGINT AS smallest, everyone AS largest, everyone AS inside FROM summed WHERE is_first AND NOT is_told
