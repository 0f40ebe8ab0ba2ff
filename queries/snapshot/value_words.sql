-- One 64-bit word for each value of an API above a number, from its name, status and text alone.
SELECT
    value.value_id,
    ('0x' || sha256(api.name || chr(31) || value.status || chr(31) || COALESCE(value.text, chr(30)))[:16])::UBIGINT AS word
FROM value
JOIN api USING (api_id)
WHERE api_id = $api AND value_id > $after
ORDER BY value_id
