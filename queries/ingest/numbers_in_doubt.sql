-- Values read as plain text of which only the quotes would have told whether they are numbers.
SELECT count(*) FROM raw_value WHERE NOT is_json AND regexp_full_match(raw, $number)
