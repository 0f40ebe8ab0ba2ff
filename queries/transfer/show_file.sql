-- A table of an export, with the place of each row.
CREATE OR REPLACE TEMP VIEW {arrived} AS
SELECT * EXCLUDE (file_row_number), file_row_number AS place FROM read_parquet({file}, file_row_number = true)
