SELECT set_index, tokens, users FROM counts WHERE ask = $ask
