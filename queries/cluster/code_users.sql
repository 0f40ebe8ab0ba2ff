-- How many users have each value of a column.
SELECT {number} AS number, {column} AS code, count(*) AS users FROM {rows} AS u GROUP BY {column}
