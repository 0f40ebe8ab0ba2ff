INSERT INTO asks (id, content, closed, added) VALUES ($id, $content, 0, $added)
