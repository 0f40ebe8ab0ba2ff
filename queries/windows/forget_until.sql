DELETE FROM kept_until
