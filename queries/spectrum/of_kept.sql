-- Count spectrum of those values of a set of columns that a hash keeps. It is hashed again, as a xor of words would not do.
SELECT users, count(*) AS tuples
FROM (
    SELECT count(*) AS users FROM {snapshot}
    WHERE hash(rowid, {seed}) >= {first} AND hash(hash({secret}, {columns})) <= {most}
    GROUP BY {columns}
)
GROUP BY users
ORDER BY users
