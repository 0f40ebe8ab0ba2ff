DELETE FROM kept_window WHERE question = $question AND since = $since
