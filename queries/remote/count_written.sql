-- Size of a batch that was written.
SELECT count(*) AS observations, count(DISTINCT "user") AS users, count(DISTINCT api) AS apis FROM written
