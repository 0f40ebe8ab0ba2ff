SELECT {counts} FROM {relation}
