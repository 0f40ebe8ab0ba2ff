-- The APIs of a long batch.
SELECT DISTINCT api FROM checked WHERE problem IS NULL
