INSERT OR IGNORE INTO answered_query BY NAME SELECT * EXCLUDE (place) FROM arrived_answered_query
