-- A second look at a window only takes evidence away.
UPDATE checked_window SET within = $within, above = $above WHERE series = $series AND label = $label
