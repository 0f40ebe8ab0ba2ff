-- A snapshot may be restricted to what one source (a library and its version) observed.
ALTER TABLE snapshot ADD COLUMN source VARCHAR
