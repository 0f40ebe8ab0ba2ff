-- Users of each kept value of each set; most rows are of no kept value of any set, and fall away first.
SELECT number, {word}, count(*) AS users
FROM (
    SELECT number, {chosen} FROM (SELECT * FROM ({words}) AS words WHERE {any_kept}) AS kept CROSS JOIN {sets}
) AS shown
WHERE {kept}
GROUP BY number, {word}
