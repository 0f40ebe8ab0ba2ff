INSERT INTO observation SELECT visit_id, $api::INTEGER, {column} FROM coded WHERE fresh AND {column} IS NOT NULL
