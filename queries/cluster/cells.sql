-- Cells of the rows that have any: status and text of each value, as they go into its hash.
SELECT {keep}, {cells} FROM {rows} AS raw {joins} WHERE COALESCE({columns}) IS NOT NULL
