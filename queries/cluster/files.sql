SELECT * FROM read_parquet({pattern})
