INSERT INTO demand SELECT $batch::INTEGER, site, script, api, calls FROM arrived_calls
