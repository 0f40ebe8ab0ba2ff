SELECT last_visit, observations FROM kept_until
