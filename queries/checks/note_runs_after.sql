-- Of users of windows that begin up to this moment nobody would know that they came before; null where none of their visits has a time.
INSERT OR REPLACE INTO meta SELECT 'runs_after', COALESCE(GREATEST($moment::TIMESTAMP, {checks/runs_after})::VARCHAR, '')
