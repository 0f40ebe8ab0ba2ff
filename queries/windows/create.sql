-- A window's users with the codes of some APIs, for as long as the window is looked at.
CREATE OR REPLACE TEMP TABLE window_codes AS SELECT * FROM codes
