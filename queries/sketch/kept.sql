-- Users of each kept value of each set, and how many they all are. No engine moves a condition on what is unnested below it, where it would write words out at length.
SELECT number, word_high, word_low, count(*) AS users
FROM (
    SELECT one.number AS number, one.high AS word_high, one.low AS word_low
    FROM (SELECT unnest([{listed}]) AS one FROM ({words}) AS words) AS listed
) AS shown
WHERE number = {every} OR {kept}
GROUP BY number, word_high, word_low
