-- Visits with the codes of some APIs in place of their values, 0 for absent.
SELECT {columns} FROM {visits} AS visit {joins}
