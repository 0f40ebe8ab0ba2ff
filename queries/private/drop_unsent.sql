DELETE FROM unsent WHERE id = $id
