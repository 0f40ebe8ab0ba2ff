INSERT INTO reject BY NAME
SELECT arrived.* EXCLUDE (place) REPLACE (batch_number.batch_id AS batch_id)
FROM arrived_reject AS arrived
JOIN batch_number ON batch_number.arrived_id = arrived.batch_id
WHERE fresh
ORDER BY place
