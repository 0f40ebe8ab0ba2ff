DROP TABLE {snapshot}
