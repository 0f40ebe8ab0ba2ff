-- One row per API: how many users were asked, and how many values came back.
CREATE OR REPLACE TEMP VIEW apis AS
SELECT
    api.name AS api,
    count(DISTINCT visit.user_id) AS users,
    count(DISTINCT value_id) AS "values",
    count(*) AS observations
FROM observation
JOIN visit USING (visit_id)
JOIN api USING (api_id)
GROUP BY api.name
