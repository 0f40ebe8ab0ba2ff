-- Windows of a question, in the order of time.
SELECT since, visits, first, last, against, content FROM kept_window WHERE question = $question ORDER BY since
