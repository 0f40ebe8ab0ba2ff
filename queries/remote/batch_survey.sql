-- Records of a batch by problem (null: none), the digest of their multiset in four sums, and which columns hold nested values.
SELECT
    problem, count(*) AS records,
    sum(hex_number(substr(h, 1, 8))) AS h1, sum(hex_number(substr(h, 9, 8))) AS h2,
    sum(hex_number(substr(h, 17, 8))) AS h3, sum(hex_number(substr(h, 25, 8))) AS h4,
    {nested}
FROM (SELECT checked.*, sha256(concat_ws(chr(31), {texts})) AS h FROM checked) AS hashed
GROUP BY problem
