('0x' || sha256($key || $user)[:16])::UBIGINT
