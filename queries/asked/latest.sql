-- One row a user: the latest, whole; of equal times that with the greatest texts, whatever the order of the rows.
SELECT {columns} FROM (
    SELECT {columns}, row_number() OVER (PARTITION BY person ORDER BY {order}) AS place FROM visit WHERE {condition}
) AS numbered
WHERE place = 1
