-- Values of several logs that are stored together, each once.
CREATE OR REPLACE TEMP TABLE canonical_value AS
SELECT min(log) AS log, api_id, status, raw, sum(records) AS records, text FROM canonical_value GROUP BY ALL
