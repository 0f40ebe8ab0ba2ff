-- Key of the digests that stand for values; no row where values are kept in the clear.
SELECT value FROM meta WHERE name = 'value_key'
