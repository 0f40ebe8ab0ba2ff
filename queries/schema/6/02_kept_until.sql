-- Up to where the windows that are kept have taken in what was stored: the highest number of a visit, and the number of observations.
CREATE TABLE kept_until (last_visit BIGINT NOT NULL, observations BIGINT NOT NULL)
