-- Words that a hash keeps. No engine moves a condition on what is unnested below it, where it would write words out at length.
SELECT high, low
FROM (SELECT one.high AS high, one.low AS low FROM (SELECT unnest([{'high': high, 'low': low}]) AS one FROM ({words}) AS words) AS listed) AS shown
WHERE {kept}
