-- Users who were forgotten there, and are not here.
INSERT OR IGNORE INTO forgotten_user SELECT digest FROM arrived_forgotten_user ANTI JOIN user USING (digest)
