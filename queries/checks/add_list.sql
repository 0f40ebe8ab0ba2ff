-- A list may have been decided on whoever is stored, and where users were forgotten since it was made, on anybody.
INSERT INTO checked_list
SELECT
    $series,
    CASE
        WHEN (SELECT value FROM meta WHERE name = 'forgotten_on') >= $made THEN $anybody
        ELSE COALESCE(max(visit_id), -1)
    END,
    $origin
FROM visit
