DELETE FROM forgotten_user WHERE digest = ('0x' || sha256($key || $user)[:16])::UBIGINT
