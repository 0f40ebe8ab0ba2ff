SELECT "set" AS number, word, users FROM read_parquet($path) WHERE {wanted}
