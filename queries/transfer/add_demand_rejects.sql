INSERT INTO demand_reject BY NAME
SELECT arrived.* EXCLUDE (place) REPLACE (demand_batch_number.batch_id AS batch_id)
FROM arrived_demand_reject AS arrived
JOIN demand_batch_number ON demand_batch_number.arrived_id = arrived.batch_id
ORDER BY place
