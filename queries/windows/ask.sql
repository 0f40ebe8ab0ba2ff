UPDATE kept_window SET asked_at = $asked_at WHERE question = $question
