-- The word of each value, and of each absent one.
SELECT {columns} FROM {relation} AS fingerprint {joins}
