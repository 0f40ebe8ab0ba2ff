SELECT content FROM unsent WHERE id = $id
