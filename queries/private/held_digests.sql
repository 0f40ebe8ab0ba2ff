SELECT digest FROM held WHERE ask = $ask
