-- Users whose values a hash keeps. No engine moves a condition on what is unnested below it, where it would write words out at length.
SELECT {columns} FROM (SELECT {fields} FROM (SELECT unnest([{members}]) AS one FROM ({words}) AS words) AS listed) AS shown WHERE {kept}
