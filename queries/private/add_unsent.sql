INSERT INTO unsent (id, ask, content) VALUES ($id, $ask, $content)
