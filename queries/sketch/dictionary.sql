SELECT text, ('0x' || substr(sha256({prefix} || cell), 1, 16))::UBIGINT AS word FROM {relation}
