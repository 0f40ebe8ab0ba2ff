-- Values of the export with their numbers here.
CREATE OR REPLACE TEMP TABLE value_number AS
SELECT arrived.api_id AS arrived_api, arrived.value_id AS arrived_value, value.api_id, value.value_id
FROM arrived_value AS arrived
JOIN arrived_api USING (api_id)
JOIN api ON api.name = arrived_api.name
JOIN value
    ON value.api_id = api.api_id
    AND value.status = arrived.status
    AND value.text IS NOT DISTINCT FROM arrived.text
