-- One row a user: the latest; of equal times that with the greatest words, whatever the order of the rows.
SELECT {columns} FROM (
    SELECT {columns}, row_number() OVER (PARTITION BY "user" ORDER BY {order}) AS place FROM ({words}) AS words
) AS numbered
WHERE place = 1
