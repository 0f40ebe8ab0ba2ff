CREATE OR REPLACE TEMP TABLE unordered_visit (visit_id INTEGER)
