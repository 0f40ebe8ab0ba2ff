INSERT INTO contested SELECT row, visit_id, known, $api::INTEGER, {column} FROM coded WHERE NOT fresh AND {column} IS NOT NULL
