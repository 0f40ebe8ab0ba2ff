INSERT OR REPLACE INTO meta VALUES ('designs', $text)
