-- Records that cannot be stored.
CREATE OR REPLACE TEMP TABLE unusable AS SELECT rowid AS log_row FROM staged WHERE problem IS NOT NULL
