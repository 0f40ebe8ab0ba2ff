-- Rows come in the order in which they were stored, which DuckDB keeps without sorting them (preserve_insertion_order).
SELECT {columns} FROM {snapshot}
