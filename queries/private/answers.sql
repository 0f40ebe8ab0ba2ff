SELECT set_index, SUM(users) FROM counts WHERE ask = $ask GROUP BY set_index
