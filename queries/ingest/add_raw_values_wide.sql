INSERT INTO raw_value SELECT DISTINCT $api::INTEGER, 'value', {column} FROM staged WHERE problem IS NULL AND {column} IS NOT NULL
