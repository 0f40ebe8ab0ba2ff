-- Values that no observation has any more.
DELETE FROM value
WHERE NOT EXISTS (
    SELECT 1 FROM observation WHERE observation.api_id = value.api_id AND observation.value_id = value.value_id
)
