-- What is set aside is not stored.
DELETE FROM canonical_value WHERE api_id IN (SELECT unnest($apis::INTEGER[]))
