-- Keys in one range, in order.
SELECT high, low FROM ({keys}) AS keyed WHERE high >= {first} AND high < {after} ORDER BY high, low
