DELETE FROM page_view WHERE visit_id IN (SELECT visit_id FROM forgotten)
