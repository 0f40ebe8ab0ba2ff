LEFT JOIN (SELECT raw, value_id FROM coded_value WHERE api_id = {api}) AS {alias} ON {alias}.raw = staged.{column}
