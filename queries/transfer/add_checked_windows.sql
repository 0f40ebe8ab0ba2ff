-- A window that was checked here and there keeps what came out here.
INSERT OR IGNORE INTO checked_window BY NAME SELECT * EXCLUDE (place) FROM arrived_checked_window
