-- Line ends in all values of one column of a wide log of text.
SELECT COALESCE(sum(length(raw_value.raw) - length(replace(raw_value.raw, chr(10), ''))), 0)::BIGINT
FROM staged
JOIN raw_value ON raw_value.raw = staged.{column} AND raw_value.api_id = $api::INTEGER
WHERE staged.problem IS NULL AND contains(raw_value.raw, chr(10))
