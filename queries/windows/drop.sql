DROP TABLE IF EXISTS window_codes
