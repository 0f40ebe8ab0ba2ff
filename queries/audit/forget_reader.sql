DELETE FROM answered_query WHERE reader = $reader
