INSERT INTO raw_value SELECT place, code, api, status, raw, $json::BOOLEAN FROM batch_values
