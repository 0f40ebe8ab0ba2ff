-- Sums of which the digest of a snapshot is made.
SELECT count(*) AS users, sum(first_high) AS first_high, sum(first_low) AS first_low, sum(high) AS second_high, sum(low) AS second_low
FROM ({salted}) AS salted
