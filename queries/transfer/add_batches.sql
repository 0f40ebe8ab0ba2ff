INSERT INTO batch BY NAME
SELECT arrived.* EXCLUDE (place) REPLACE (batch_number.batch_id AS batch_id)
FROM arrived_batch AS arrived
JOIN batch_number ON batch_number.arrived_id = arrived.batch_id
WHERE fresh
ORDER BY place
