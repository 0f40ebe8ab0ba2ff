-- Windows share delta without end: nothing counts checks any more.
DROP TABLE certified_check
