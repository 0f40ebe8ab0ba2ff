-- The users of the staged visits, and where they first come.
CREATE OR REPLACE TEMP TABLE staged_user AS
SELECT digest, min(first_row) AS first_row, sum(records) AS records FROM staged_visit GROUP BY digest
