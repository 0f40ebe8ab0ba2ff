DELETE FROM held WHERE ask = $ask AND digest = $digest
