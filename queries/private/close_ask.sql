UPDATE asks SET closed = 1 WHERE id = $id
