-- Values of one column that stand in no record that is stored.
DELETE FROM raw_value
WHERE place = $place
    AND code IN (SELECT {column} FROM staged WHERE problem IS NOT NULL)
    AND code NOT IN (SELECT {column} FROM staged WHERE problem IS NULL AND {column} IS NOT NULL)
