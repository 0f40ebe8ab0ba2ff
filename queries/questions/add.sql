INSERT INTO question VALUES ($asked_at, $question, $answer)
