INSERT OR IGNORE INTO forgotten_user SELECT {upkeep/digest_of_user}
