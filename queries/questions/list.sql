-- All questions in the order of asking; registered ones come first.
SELECT asked_at, question, answer FROM question ORDER BY answer IS NOT NULL, asked_at, question
