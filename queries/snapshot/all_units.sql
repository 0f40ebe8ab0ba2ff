SELECT DISTINCT unit FROM batch WHERE stored > 0
