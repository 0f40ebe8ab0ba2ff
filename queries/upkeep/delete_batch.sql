DELETE FROM batch WHERE source = $source
