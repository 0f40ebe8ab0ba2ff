INSERT OR REPLACE INTO watched_decision VALUES ($decision, $last_batch)
