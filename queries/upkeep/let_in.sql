DELETE FROM forgotten_user WHERE digest = {upkeep/digest_of_user}
