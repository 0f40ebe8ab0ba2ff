-- Numbers that change when users come, visit again, or are forgotten.
SELECT
    (SELECT count(*) FROM batch WHERE stored > 0),
    (SELECT count(*) FROM "user"),
    (SELECT count(*) FROM visit),
    (SELECT count(*) FROM observation)
