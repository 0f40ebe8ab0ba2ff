SELECT ask, outcome, messages FROM tally ORDER BY ask, outcome
