-- When the visits between two numbers were, microseconds.
SELECT visit_id, epoch_us("time") AS moment FROM visit WHERE visit_id BETWEEN $first AND $last AND "time" IS NOT NULL
