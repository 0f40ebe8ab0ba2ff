SELECT id, added FROM asks
