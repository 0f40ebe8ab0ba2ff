INSERT INTO checked_window
VALUES ($series, $label, $number, $since, $terms, $within, $above, $passed, $violated, $run, $checked_at)
