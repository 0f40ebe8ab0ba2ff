INSERT INTO kept_window SELECT $question, $period, $since, $against, $visits, $first, $last, $content, $asked_at
