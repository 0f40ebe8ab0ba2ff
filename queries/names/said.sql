-- What the user said that columns hold: their names, and the APIs.
SELECT substr(name, length($prefix) + 1), value FROM meta WHERE starts_with(name, $prefix) ORDER BY name
