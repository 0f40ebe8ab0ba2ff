-- Whether a log of this name was stored by a version that named rows otherwise.
SELECT count(*) > 0 FROM batch WHERE source = $source AND content IS NULL AND COALESCE(unit, 'row') = 'row'
