-- Whether a log of this name was stored before.
SELECT count(*) > 0 FROM batch WHERE source = $source
