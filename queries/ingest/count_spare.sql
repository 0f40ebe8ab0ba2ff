-- Records with a value in a column that is not taken, and different values.
SELECT count({column}), count(DISTINCT {column}) FROM ({values}) AS log_value
