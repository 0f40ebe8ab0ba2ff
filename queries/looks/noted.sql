-- What was noted of the first look at the users: the state of the data then, or a word.
SELECT value FROM meta WHERE name = 'first_look'
