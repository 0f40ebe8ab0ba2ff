-- Users of each kept value of each set. No engine moves a condition on what is unnested below it, where it would write words out at length.
SELECT number, {word}, count(*) AS users
FROM (SELECT {fields} FROM (SELECT unnest([{listed}]) AS one FROM ({words}) AS words WHERE {some_kept}) AS listed) AS shown
WHERE {kept}
GROUP BY number, {word}
