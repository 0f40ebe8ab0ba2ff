WITH visit AS (
  SELECT
    CASE WHEN CAST(v.`id` AS STRING) = '' THEN NULL ELSE v.`id` END AS person,
    CASE
      WHEN CAST(v.`Screen.width` AS STRING) IN ('NaN', 'nan')
      THEN NULL
      ELSE v.`Screen.width`
    END AS c0,
    CASE
      WHEN CAST(v.`a; DROP TABLE visits --` AS STRING) IN ('NaN', 'nan')
      THEN NULL
      ELSE v.`a; DROP TABLE visits --`
    END AS c1,
    CASE
      WHEN CAST(v.`back\slash` AS STRING) IN ('NaN', 'nan')
      THEN NULL
      ELSE v.`back\slash`
    END AS c2,
    CASE
      WHEN CAST(v.`back``tick` AS STRING) IN ('NaN', 'nan')
      THEN NULL
      ELSE v.`back``tick`
    END AS c3,
    CASE WHEN CAST(v.`c0` AS STRING) IN ('NaN', 'nan') THEN NULL ELSE v.`c0` END AS c4,
    CASE WHEN CAST(v.`it's` AS STRING) IN ('NaN', 'nan') THEN NULL ELSE v.`it's` END AS c5,
    CASE WHEN CAST(v.`person` AS STRING) IN ('NaN', 'nan') THEN NULL ELSE v.`person` END AS c6,
    CASE
      WHEN CAST(v.`say "hi"` AS STRING) IN ('NaN', 'nan')
      THEN NULL
      ELSE v.`say "hi"`
    END AS c7,
    CASE WHEN CAST(v.`ünï ☃` AS STRING) IN ('NaN', 'nan') THEN NULL ELSE v.`ünï ☃` END AS c8,
    v.`seen` AS moment
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
        ORDER BY CASE WHEN moment IS NULL THEN 1 ELSE 0 END NULLS LAST, moment DESC, CASE WHEN c0 IS NULL THEN 1 ELSE 0 END NULLS LAST, CAST(c0 AS STRING) DESC, CASE WHEN c1 IS NULL THEN 1 ELSE 0 END NULLS LAST, CAST(c1 AS STRING) DESC, CASE WHEN c2 IS NULL THEN 1 ELSE 0 END NULLS LAST, CAST(c2 AS STRING) DESC, CASE WHEN c3 IS NULL THEN 1 ELSE 0 END NULLS LAST, CAST(c3 AS STRING) DESC, CASE WHEN c4 IS NULL THEN 1 ELSE 0 END NULLS LAST, CAST(c4 AS STRING) DESC, CASE WHEN c5 IS NULL THEN 1 ELSE 0 END NULLS LAST, CAST(c5 AS STRING) DESC, CASE WHEN c6 IS NULL THEN 1 ELSE 0 END NULLS LAST, CAST(c6 AS STRING) DESC, CASE WHEN c7 IS NULL THEN 1 ELSE 0 END NULLS LAST, CAST(c7 AS STRING) DESC, CASE WHEN c8 IS NULL THEN 1 ELSE 0 END NULLS LAST, CAST(c8 AS STRING) DESC
      ) AS place
    FROM visit
    WHERE
      NOT person IS NULL
  ) AS numbered
  WHERE
    place = 1
), counted AS (
  SELECT
    CAST((
      0
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(CASE WHEN c0 IS NULL THEN 1 ELSE 0 END)
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c0
  ) AS tuple
  GROUP BY
    lacking,
    size
  UNION ALL
  SELECT
    CAST((
      1
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(CASE WHEN c1 IS NULL THEN 1 ELSE 0 END)
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c1
  ) AS tuple
  GROUP BY
    lacking,
    size
  UNION ALL
  SELECT
    CAST((
      2
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(CASE WHEN c2 IS NULL THEN 1 ELSE 0 END)
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c2
  ) AS tuple
  GROUP BY
    lacking,
    size
  UNION ALL
  SELECT
    CAST((
      3
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(CASE WHEN c3 IS NULL THEN 1 ELSE 0 END)
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c3
  ) AS tuple
  GROUP BY
    lacking,
    size
  UNION ALL
  SELECT
    CAST((
      4
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(CASE WHEN c4 IS NULL THEN 1 ELSE 0 END)
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c4
  ) AS tuple
  GROUP BY
    lacking,
    size
  UNION ALL
  SELECT
    CAST((
      5
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(CASE WHEN c5 IS NULL THEN 1 ELSE 0 END)
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c5
  ) AS tuple
  GROUP BY
    lacking,
    size
  UNION ALL
  SELECT
    CAST((
      6
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(CASE WHEN c6 IS NULL THEN 1 ELSE 0 END)
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c6
  ) AS tuple
  GROUP BY
    lacking,
    size
  UNION ALL
  SELECT
    CAST((
      7
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(CASE WHEN c7 IS NULL THEN 1 ELSE 0 END)
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c7
  ) AS tuple
  GROUP BY
    lacking,
    size
  UNION ALL
  SELECT
    CAST((
      8
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(CASE WHEN c8 IS NULL THEN 1 ELSE 0 END)
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c8
  ) AS tuple
  GROUP BY
    lacking,
    size
  UNION ALL
  SELECT
    CAST((
      9
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(CASE WHEN c4 IS NULL OR c5 IS NULL THEN 1 ELSE 0 END)
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c4,
      c5
  ) AS tuple
  GROUP BY
    lacking,
    size
  UNION ALL
  SELECT
    CAST((
      10
    ) AS BIGINT) AS place,
    lacking,
    size,
    CAST(COUNT(*) AS BIGINT) AS number
  FROM (
    SELECT
      CAST((
        MAX(
          CASE
            WHEN c0 IS NULL
            OR c1 IS NULL
            OR c2 IS NULL
            OR c3 IS NULL
            OR c4 IS NULL
            OR c5 IS NULL
            OR c6 IS NULL
            OR c7 IS NULL
            OR c8 IS NULL
            THEN 1
            ELSE 0
          END
        )
      ) AS BIGINT) AS lacking,
      CAST(COUNT(*) AS BIGINT) AS size
    FROM person
    GROUP BY
      c0,
      c1,
      c2,
      c3,
      c4,
      c5,
      c6,
      c7,
      c8
  ) AS tuple
  GROUP BY
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
    WHEN 0
    THEN '["Screen.width"]'
    WHEN 1
    THEN '["a; DROP TABLE visits --"]'
    WHEN 2
    THEN '["back\\\\slash"]'
    WHEN 3
    THEN '["back`tick"]'
    WHEN 4
    THEN '["c0"]'
    WHEN 5
    THEN '["it\'s"]'
    WHEN 6
    THEN '["person"]'
    WHEN 7
    THEN '["say \\"hi\\""]'
    WHEN 8
    THEN '["ünï ☃"]'
    WHEN 9
    THEN '["c0", "it\'s"]'
    WHEN 10
    THEN '["Screen.width", "a; DROP TABLE visits --", "back\\\\slash", "back`tick", "c0", "it\'s", "person", "say \\"hi\\"", "ünï ☃"]'
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
  1 NULLS LAST,
  2 NULLS LAST,
  3 NULLS LAST;
