SELECT count(*) FROM staged
