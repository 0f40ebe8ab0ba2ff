INSERT INTO reject SELECT $batch::INTEGER, line, reason, excerpt FROM rejects
