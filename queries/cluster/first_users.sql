-- Users up to one key.
SELECT {columns} FROM ({keys}) AS keyed WHERE high < {last_high} OR (high = {last_high} AND low <= {last_low})
