SELECT count(*) FROM staged WHERE problem IS NOT NULL
