DELETE FROM held WHERE ask = $ask
