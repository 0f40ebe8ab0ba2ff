-- Records of a batch by problem; null where there is none.
SELECT problem, count(*) AS records FROM checked GROUP BY problem
