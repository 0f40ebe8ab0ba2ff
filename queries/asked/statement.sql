WITH visit AS ({all_rows}), person AS ({persons}), counted AS ({groups}){more}, told AS ({told})
SELECT CASE place {name_of_place} END AS apis, lacking, smallest, largest, inside AS users FROM told WHERE inside > 0
UNION ALL SELECT '[]' AS apis, {are_rows}::BIGINT AS lacking, 0::BIGINT AS smallest, count(*)::BIGINT AS largest, ({users})::BIGINT AS users FROM visit WHERE NOT person IS NULL
UNION ALL SELECT 'null' AS apis, 0::BIGINT AS lacking, 0::BIGINT AS smallest, count(*)::BIGINT AS largest, count(*)::BIGINT AS users FROM visit WHERE person IS NULL
ORDER BY 1, 2, 3
