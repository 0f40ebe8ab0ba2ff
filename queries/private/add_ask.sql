INSERT INTO asks (id, content, closed) VALUES ($id, $content, 0)
