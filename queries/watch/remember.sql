INSERT OR REPLACE INTO watched_decision VALUES ($decision, 0, $data, $standing)
