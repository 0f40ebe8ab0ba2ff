SELECT key, value FROM parquet_kv_metadata($path)
