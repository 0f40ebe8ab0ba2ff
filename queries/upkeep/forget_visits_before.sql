-- Visits before a time; those without a time stay.
CREATE OR REPLACE TEMP TABLE forgotten AS SELECT visit_id FROM visit WHERE "time" < $before
