SELECT count(*) AS visits, count(DISTINCT "user") AS users FROM coded_visit
