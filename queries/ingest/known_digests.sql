-- Which of some logs were stored before.
SELECT digest FROM batch WHERE digest IN (SELECT unnest($digests::VARCHAR[]))
