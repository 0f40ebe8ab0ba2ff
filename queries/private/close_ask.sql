UPDATE asks SET closed = 1 WHERE id = $id AND NOT closed
