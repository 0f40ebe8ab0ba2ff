-- APIs that the database names, beside those of the vocabulary: there is room for all of these.
SELECT count(*) FROM api WHERE NOT list_contains($vocabulary::VARCHAR[], name)
