-- What a reader has had answered.
SELECT query FROM answered_query WHERE reader = $reader
