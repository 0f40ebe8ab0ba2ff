-- SHA-256 of the values of each user, named by their API as in `snapshot/value_words`.
SELECT {keep}, {hashes} FROM {cells}
