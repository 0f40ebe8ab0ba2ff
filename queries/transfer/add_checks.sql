-- Checks of other data than those checked here share the same delta: they are numbered after those of here.
INSERT INTO certified_check BY NAME
SELECT
    arrived.* EXCLUDE (place)
    REPLACE (COALESCE(known.last, 0) + row_number() OVER (PARTITION BY decision, horizon ORDER BY arrived.number) AS number)
FROM arrived_certified_check AS arrived
LEFT JOIN (SELECT decision, horizon, max(number) AS last FROM certified_check GROUP BY decision, horizon) AS known
    USING (decision, horizon)
WHERE NOT EXISTS (
    SELECT 1 FROM certified_check AS here
    WHERE here.decision = arrived.decision AND here.horizon = arrived.horizon AND here.digest = arrived.digest
)
