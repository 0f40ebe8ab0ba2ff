INSERT INTO snapshot VALUES ($snapshot, $window_from, $window_to, $last_batch, $users, $visits, $digest, $source)
