INSERT OR REPLACE INTO watched_file VALUES ($path, $size, $modified, $refusal)
