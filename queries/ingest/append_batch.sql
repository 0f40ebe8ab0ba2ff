INSERT INTO staged FROM staged_batch
