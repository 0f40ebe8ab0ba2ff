-- Observations of the taken visits, with their values as the export numbers them.
CREATE OR REPLACE TEMP TABLE taken_observation AS
SELECT arrived.place, visit_number.visit_id, visit_number.fresh, arrived.api_id AS arrived_api, arrived.value_id AS arrived_value
FROM arrived_observation AS arrived
JOIN visit_number ON visit_number.arrived_id = arrived.visit_id
