-- Users up to one key.
SELECT {columns} FROM ({keys}) AS keyed WHERE high < $high OR (high = $high AND low <= $low)
