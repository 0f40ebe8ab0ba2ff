-- One row per record of a log, in its order, with what is wrong with it; a column of codes for each API is added to it.
CREATE OR REPLACE TEMP TABLE staged (problem VARCHAR, digest UBIGINT, "time" TIMESTAMP, source VARCHAR)
