-- A kept snapshot of this window that no later batch has made stale.
SELECT snapshot_id, users, visits, digest FROM snapshot
WHERE window_from IS NOT DISTINCT FROM $window_from
    AND window_to IS NOT DISTINCT FROM $window_to
    AND source IS NOT DISTINCT FROM $source
    AND last_batch = (SELECT max(batch_id) FROM batch)
