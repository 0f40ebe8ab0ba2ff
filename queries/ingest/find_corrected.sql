-- What a stored visit that has a time was told of an API, where this log tells only other values of it.
CREATE OR REPLACE TEMP TABLE corrected AS
SELECT visit_id, api_id
FROM contested
JOIN observation USING (visit_id, api_id)
SEMI JOIN (SELECT visit_id FROM numbered_visit WHERE known AND "time" IS NOT NULL) AS dated USING (visit_id)
GROUP BY visit_id, api_id
HAVING bool_and(contested.value_id <> observation.value_id)
