SELECT id, ask FROM unsent
