INSERT INTO study (one, content) VALUES (1, $content)
