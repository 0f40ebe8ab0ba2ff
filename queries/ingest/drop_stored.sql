-- Observations that are stored already.
DELETE FROM contested USING observation
WHERE contested.known
    AND observation.visit_id = contested.visit_id
    AND observation.api_id = contested.api_id
    AND observation.value_id = contested.value_id
