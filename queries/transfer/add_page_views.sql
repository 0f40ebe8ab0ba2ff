INSERT INTO page_view
SELECT visit_number.visit_id, arrived.view, arrived.session
FROM arrived_page_view AS arrived
JOIN visit_number ON visit_number.arrived_id = arrived.visit_id
WHERE visit_number.fresh
ORDER BY visit_number.visit_id
