-- What each script, or each host of scripts, reads in some logs and on which sites, those of the most sites first.
WITH read AS (
    SELECT if($by = 'domain', split_part(script, '/', 1), script) AS reader, api, site
    FROM demand JOIN demand_batch USING (batch_id)
    WHERE source GLOB $crawl AND ($reports OR collector <> 'reporting')
),
places AS (SELECT reader, list(DISTINCT site ORDER BY site) AS sites FROM read GROUP BY reader),
counts AS (SELECT reader, api, count(DISTINCT site) AS sites FROM read GROUP BY reader, api)
SELECT reader, any_value(places.sites), list(api ORDER BY api), list(counts.sites ORDER BY api)
FROM places JOIN counts USING (reader)
GROUP BY reader
ORDER BY len(any_value(places.sites)) DESC, reader
LIMIT $most
