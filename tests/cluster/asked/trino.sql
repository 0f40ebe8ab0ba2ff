WITH visit AS (
  SELECT
    CASE WHEN CAST(v."id" AS VARCHAR) = '' THEN NULL ELSE v."id" END AS person,
    CASE
      WHEN CAST(v."Screen.width" AS VARCHAR) IN ('NaN', 'nan')
      THEN NULL
      ELSE v."Screen.width"
    END AS c0,
    CASE
      WHEN CAST(v."a; DROP TABLE visits --" AS VARCHAR) IN ('NaN', 'nan')
      THEN NULL
      ELSE v."a; DROP TABLE visits --"
    END AS c1,
    CASE
      WHEN CAST(v."back\slash" AS VARCHAR) IN ('NaN', 'nan')
      THEN NULL
      ELSE v."back\slash"
    END AS c2,
    CASE
      WHEN CAST(v."back`tick" AS VARCHAR) IN ('NaN', 'nan')
      THEN NULL
      ELSE v."back`tick"
    END AS c3,
    CASE WHEN CAST(v."c0" AS VARCHAR) IN ('NaN', 'nan') THEN NULL ELSE v."c0" END AS c4,
    CASE WHEN CAST(v."it's" AS VARCHAR) IN ('NaN', 'nan') THEN NULL ELSE v."it's" END AS c5,
    CASE
      WHEN CAST(v."person" AS VARCHAR) IN ('NaN', 'nan')
      THEN NULL
      ELSE v."person"
    END AS c6,
    CASE
      WHEN CAST(v."say ""hi""" AS VARCHAR) IN ('NaN', 'nan')
      THEN NULL
      ELSE v."say ""hi"""
    END AS c7,
    CASE WHEN CAST(v."ünï ☃" AS VARCHAR) IN ('NaN', 'nan') THEN NULL ELSE v."ünï ☃" END AS c8,
    v."seen" AS moment
  FROM shop.visits AS v
), person AS (
  SELECT
    c0,
    c1,
    c2,
    c3,
    c4,
    c5,
    c6,
    c7,
    c8
  FROM (
    SELECT
      c0,
      c1,
      c2,
      c3,
      c4,
      c5,
      c6,
      c7,
      c8,
      ROW_NUMBER() OVER (
        PARTITION BY person
        ORDER BY CASE WHEN moment IS NULL THEN 1 ELSE 0 END, moment DESC, CASE WHEN c0 IS NULL THEN 1 ELSE 0 END, CAST(c0 AS VARCHAR) DESC, CASE WHEN c1 IS NULL THEN 1 ELSE 0 END, CAST(c1 AS VARCHAR) DESC, CASE WHEN c2 IS NULL THEN 1 ELSE 0 END, CAST(c2 AS VARCHAR) DESC, CASE WHEN c3 IS NULL THEN 1 ELSE 0 END, CAST(c3 AS VARCHAR) DESC, CASE WHEN c4 IS NULL THEN 1 ELSE 0 END, CAST(c4 AS VARCHAR) DESC, CASE WHEN c5 IS NULL THEN 1 ELSE 0 END, CAST(c5 AS VARCHAR) DESC, CASE WHEN c6 IS NULL THEN 1 ELSE 0 END, CAST(c6 AS VARCHAR) DESC, CASE WHEN c7 IS NULL THEN 1 ELSE 0 END, CAST(c7 AS VARCHAR) DESC, CASE WHEN c8 IS NULL THEN 1 ELSE 0 END, CAST(c8 AS VARCHAR) DESC
      ) AS place
    FROM visit
    WHERE
      NOT person IS NULL
  ) AS numbered
  WHERE
    place = 1
), counted AS (
  SELECT
    place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        1 * GROUPING(c0) + 2 * GROUPING(c1) + 4 * GROUPING(c2) + 8 * GROUPING(c3) + 16 * GROUPING(c4) + 32 * GROUPING(c5) + 64 * GROUPING(c6) + 128 * GROUPING(c7) + 256 * GROUPING(c8)
      ) AS BIGINT) AS place,
      CAST((
        CASE
          WHEN (
            GROUPING(c0) = 0 AND c0 IS NULL
          )
          OR (
            GROUPING(c1) = 0 AND c1 IS NULL
          )
          OR (
            GROUPING(c2) = 0 AND c2 IS NULL
          )
          OR (
            GROUPING(c3) = 0 AND c3 IS NULL
          )
          OR (
            GROUPING(c4) = 0 AND c4 IS NULL
          )
          OR (
            GROUPING(c5) = 0 AND c5 IS NULL
          )
          OR (
            GROUPING(c6) = 0 AND c6 IS NULL
          )
          OR (
            GROUPING(c7) = 0 AND c7 IS NULL
          )
          OR (
            GROUPING(c8) = 0 AND c8 IS NULL
          )
          THEN 1
          ELSE 0
        END
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      GROUPING SETS (
        (
          c0
        ),
        (
          c1
        ),
        (
          c2
        ),
        (
          c3
        ),
        (
          c4
        ),
        (
          c5
        ),
        (
          c6
        ),
        (
          c7
        ),
        (
          c8
        ),
        (c4, c5),
        (c0, c1, c2, c3, c4, c5, c6, c7, c8)
      )
  ) AS tuple
  GROUP BY
    place,
    lacking,
    size
), summed AS (
  SELECT
    place,
    lacking,
    size,
    number,
    few,
    everyone,
    size * 2 + 1 - lacking = first_by AS is_first,
    few >= 10 OR few + top >= 19 AS is_told
  FROM (
    SELECT
      place,
      lacking,
      size,
      number,
      CAST((
        SUM(CASE WHEN size < 10 THEN size * number ELSE 0 END) OVER (PARTITION BY place)
      ) AS BIGINT) AS few,
      CAST((
        SUM(size * number) OVER (PARTITION BY place)
      ) AS BIGINT) AS everyone,
      MAX(size * 2 + 1 - lacking) OVER (PARTITION BY place) AS first_by,
      MAX(size) OVER (PARTITION BY place) AS top
    FROM counted
  ) AS beside
), told AS (
  SELECT
    place,
    lacking,
    size AS smallest,
    size AS largest,
    CAST((
      size * (
        number - CASE WHEN is_first AND few < 10 THEN 1 ELSE 0 END
      )
    ) AS BIGINT) AS inside
  FROM summed
  WHERE
    size >= 10 AND is_told
  UNION ALL
  SELECT
    place,
    lacking,
    size + few - 9 AS smallest,
    size + few AS largest,
    size + few - 9 AS inside
  FROM summed
  WHERE
    is_first AND few < 10 AND is_told
  UNION ALL
  SELECT
    place,
    CAST(0 AS BIGINT) AS lacking,
    CAST(1 AS BIGINT) AS smallest,
    CAST((
      CASE WHEN few < 10 THEN size + few ELSE 9 END
    ) AS BIGINT) AS largest,
    CAST((
      CASE WHEN few < 10 THEN 9 ELSE few END
    ) AS BIGINT) AS inside
  FROM summed
  WHERE
    is_first AND is_told
  UNION ALL
  SELECT
    place,
    CAST(0 AS BIGINT) AS lacking,
    CAST(1 AS BIGINT) AS smallest,
    everyone AS largest,
    everyone AS inside
  FROM summed
  WHERE
    is_first AND NOT is_told
)
SELECT
  CASE place
    WHEN 510
    THEN '["Screen.width"]'
    WHEN 509
    THEN '["a; DROP TABLE visits --"]'
    WHEN 507
    THEN '["back\\slash"]'
    WHEN 503
    THEN '["back`tick"]'
    WHEN 495
    THEN '["c0"]'
    WHEN 479
    THEN '["it''s"]'
    WHEN 447
    THEN '["person"]'
    WHEN 383
    THEN '["say \"hi\""]'
    WHEN 255
    THEN '["ünï ☃"]'
    WHEN 463
    THEN '["c0", "it''s"]'
    WHEN 0
    THEN '["Screen.width", "a; DROP TABLE visits --", "back\\slash", "back`tick", "c0", "it''s", "person", "say \"hi\"", "ünï ☃"]'
  END AS apis,
  lacking,
  smallest,
  largest,
  inside AS users
FROM told
WHERE
  inside > 0
UNION ALL
SELECT
  '[]' AS apis,
  CAST(0 AS BIGINT) AS lacking,
  CAST(0 AS BIGINT) AS smallest,
  CAST(COUNT(*) AS BIGINT) AS largest,
  CAST((
    COUNT(DISTINCT person)
  ) AS BIGINT) AS users
FROM visit
WHERE
  NOT person IS NULL
UNION ALL
SELECT
  'null' AS apis,
  CAST(0 AS BIGINT) AS lacking,
  CAST(0 AS BIGINT) AS smallest,
  CAST(COUNT(*) AS BIGINT) AS largest,
  CAST(COUNT(*) AS BIGINT) AS users
FROM visit
WHERE
  person IS NULL
ORDER BY
  1,
  2,
  3;
