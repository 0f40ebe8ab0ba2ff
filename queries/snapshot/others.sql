-- Snapshots that a later batch has made stale.
SELECT snapshot_id FROM snapshot WHERE last_batch < (SELECT max(batch_id) FROM batch)
