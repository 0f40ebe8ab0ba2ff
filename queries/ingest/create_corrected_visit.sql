CREATE OR REPLACE TEMP TABLE corrected_visit (visit_id INTEGER)
