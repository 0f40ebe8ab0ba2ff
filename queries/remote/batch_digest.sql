-- Digest of the multiset of a batch's observations in four sums, and how many they are.
SELECT
    count(*) AS observations,
    sum(hex_number(substr(h, 1, 8))) AS h1, sum(hex_number(substr(h, 9, 8))) AS h2,
    sum(hex_number(substr(h, 17, 8))) AS h3, sum(hex_number(substr(h, 25, 8))) AS h4
FROM (
    SELECT sha256(
        "user" || chr(31) || COALESCE(moment::VARCHAR, chr(30)) || chr(31) || COALESCE(source, chr(30)) || chr(31) || api
        || chr(31) || status || chr(31) || COALESCE(value, chr(30))
    ) AS h
    FROM cells
) AS hashed
