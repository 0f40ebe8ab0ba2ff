SELECT count(*) FROM {snapshot}
