-- What was asked of these users. A question registered there was not registered before the users of here.
INSERT INTO question BY NAME
SELECT * EXCLUDE (place) FROM arrived_question WHERE answer IS NOT NULL EXCEPT SELECT * FROM question
