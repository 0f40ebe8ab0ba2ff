INSERT INTO certified_check VALUES ($decision, $horizon, $number, $digest, $checked_at)
