INSERT OR IGNORE INTO forgotten_user SELECT ('0x' || sha256($key || $user)[:16])::UBIGINT
