-- What earlier looks kept of designs of certificates.
SELECT value FROM meta WHERE name = 'designs'
