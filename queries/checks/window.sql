-- A window that a list was checked on.
SELECT number, terms, within, above, passed, violated, run FROM checked_window WHERE series = $series AND label = $label
