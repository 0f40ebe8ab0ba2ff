INSERT INTO checked_list SELECT $series, COALESCE(max(visit_id), -1), $origin FROM visit
