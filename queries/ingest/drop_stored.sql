-- Observations that are stored already; run only where a visit was known, since it reads all observations.
DELETE FROM kept USING observation
WHERE kept.known
    AND observation.visit_id = kept.visit_id
    AND observation.api_id = kept.api_id
    AND observation.value_id = kept.value_id
