-- Words of the users in one range, in order.
SELECT high, low FROM {snapshot} WHERE high >= $first AND high < $after ORDER BY high, low
