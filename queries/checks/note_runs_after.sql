-- Of users of windows that begin up to this moment nobody would know that they came before.
INSERT OR REPLACE INTO meta SELECT 'runs_after', GREATEST($moment::TIMESTAMP, {checks/runs_after})::VARCHAR
