DELETE FROM snapshot WHERE snapshot_id = $snapshot
