SELECT COALESCE(max(notice_id), 0) + 1 FROM notice
