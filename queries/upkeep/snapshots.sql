SELECT snapshot_id FROM snapshot
