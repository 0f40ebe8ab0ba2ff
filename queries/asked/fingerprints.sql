WITH visit AS ({all_rows}), person AS ({persons}) SELECT {columns} FROM person {grouping}
