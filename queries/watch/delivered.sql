UPDATE notice SET delivered = true WHERE notice_id = $notice
