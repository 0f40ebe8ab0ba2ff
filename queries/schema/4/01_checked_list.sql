-- How the allow list of a decision is checked again and again: visits that may have made the list, and the first window.
CREATE TABLE checked_list (series VARCHAR PRIMARY KEY, last_visit BIGINT NOT NULL, origin TIMESTAMP)
