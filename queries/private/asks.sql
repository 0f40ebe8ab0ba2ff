SELECT id, content, closed FROM asks
