-- What the newest notices tell, of all decisions.
SELECT body FROM notice ORDER BY notice_id DESC LIMIT $most
