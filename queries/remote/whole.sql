SELECT * FROM {relation}
