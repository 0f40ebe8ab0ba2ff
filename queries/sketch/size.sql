SELECT num_rows FROM parquet_file_metadata($path)
