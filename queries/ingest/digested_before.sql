-- Whether a log was stored by a version that took one digest of its bytes and of how they are read.
SELECT count(*) > 0 FROM batch WHERE NOT contains(digest, '+')
