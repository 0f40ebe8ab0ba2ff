SELECT COALESCE(max(snapshot_id), 0) + 1 FROM snapshot
