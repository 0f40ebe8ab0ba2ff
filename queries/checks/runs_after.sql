-- The moment after which windows count in runs; null where all do. Earlier versions kept only the day of the last forgetting.
CASE
    WHEN EXISTS (FROM meta WHERE name = 'runs_after') THEN (SELECT NULLIF(value, '')::TIMESTAMP FROM meta WHERE name = 'runs_after')
    ELSE (SELECT value::TIMESTAMP + INTERVAL 1 DAY FROM meta WHERE name = 'forgotten_on')
END
