-- What the newest notices on a list tell, of all decisions that its file has held; its digest stands in no other notice.
SELECT body FROM notice WHERE contains(body, $list_key) ORDER BY notice_id DESC LIMIT $most
