INSERT INTO taken (ask, digest) VALUES ($ask, $digest)
