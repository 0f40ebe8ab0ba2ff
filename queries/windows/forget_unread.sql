-- Windows of a question that were to be read again.
DELETE FROM kept_window WHERE question = $question AND content IS NULL
