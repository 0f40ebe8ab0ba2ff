-- One table as a file, its rows in their order.
COPY {table} TO {file} (FORMAT parquet, COMPRESSION zstd)
