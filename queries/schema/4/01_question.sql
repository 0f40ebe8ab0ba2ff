-- Questions about sets of APIs as JSON: those registered before the first user, which have no answer, and those asked with a summary of it.
CREATE TABLE question (asked_at TIMESTAMP NOT NULL, question VARCHAR NOT NULL, answer VARCHAR)
