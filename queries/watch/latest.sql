-- What the newest notices on a list tell, of all decisions that its file has held.
SELECT body FROM notice WHERE body::JSON ->> '$.list' = $list_key ORDER BY notice_id DESC LIMIT $most
