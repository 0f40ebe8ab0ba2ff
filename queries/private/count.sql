INSERT INTO counts (ask, set_index, tokens, users) VALUES ($ask, $set_index, $tokens, $users)
ON CONFLICT (ask, set_index, tokens) DO UPDATE SET users = counts.users + excluded.users
