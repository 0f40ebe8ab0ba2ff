CASE
    -- Seconds, milli-, micro- or nanoseconds since 1970, by their size; a number that leads to no year in which logs
    -- were written may be a date without punctuation.
    WHEN regexp_full_match(trim("time"), '[0-9]+(\.[0-9]*)?([eE][+]?[0-9]+)?') THEN COALESCE(
        list_filter(
            [
                CASE
                    WHEN TRY_CAST("time" AS DOUBLE) < 1e11 THEN make_timestamp((TRY_CAST("time" AS DECIMAL(38, 9)) * 1000000)::BIGINT)
                    WHEN TRY_CAST("time" AS DOUBLE) < 1e14 THEN make_timestamp((TRY_CAST("time" AS DECIMAL(38, 9)) * 1000)::BIGINT)
                    WHEN TRY_CAST("time" AS DOUBLE) < 1e17 THEN make_timestamp(TRY_CAST("time" AS DECIMAL(38, 9))::BIGINT)
                    WHEN TRY_CAST("time" AS DOUBLE) < 1e19 THEN make_timestamp((TRY_CAST("time" AS DECIMAL(38, 9))::HUGEINT // 1000)::BIGINT)
                END
            ],
            lambda moment: moment BETWEEN TIMESTAMP '1990-01-01' AND TIMESTAMP '2200-01-01'
        )[1],
        TRY_STRPTIME(trim("time"), ['%Y%m%d', '%Y%m%d%H%M%S'])
    )
    WHEN substr("time", 5, 1) IN ('-', '/') THEN COALESCE(
        TRY_CAST("time" AS TIMESTAMPTZ),
        -- A comma before the fraction, a space before the zone, a zone by its name behind it; DuckDB 1.5 wants seconds.
        TRY_CAST(
            regexp_replace(
                regexp_replace(
                    regexp_replace("time", '^(.{10}[T ][0-9]{2}:[0-9]{2})(Z|[+-].*)?$', '\1:00\2'),
                    '^(.{10}[T ][0-9:]{8}),([0-9]+)', '\1.\2'
                ),
                '^(.{19}[0-9.]*) ?(Z|[+-][0-9:]+)(\[.*\])?$', '\1\2'
            ) AS TIMESTAMPTZ
        )
    )::TIMESTAMP
    -- Dates of logs and of JavaScript. Those that name a zone are read apart from the others: in one list of forms, DuckDB
    -- 2.0 gives the zone of a row to the rows below it.
    ELSE COALESCE(
        TRY_STRPTIME(
            regexp_replace(trim("time", ' []'), ' \(.*\)$', ''),
            [
                '%d/%b/%Y:%H:%M:%S %z', '%d/%b/%Y:%H:%M:%S.%f %z', '%a %b %d %Y %H:%M:%S GMT%z',
                '%a, %d %b %Y %H:%M:%S %z', '%Y%m%dT%H%M%S%z'
            ]
        )::TIMESTAMP,
        TRY_STRPTIME(
            trim("time", ' []'),
            [
                '%d/%b/%Y:%H:%M:%S', '%d/%b/%Y:%H:%M:%S.%f', '%d/%b/%Y %H:%M:%S', '%d.%m.%Y %H:%M:%S', '%d.%m.%Y, %H:%M:%S', '%d.%m.%Y %H:%M', '%d.%m.%Y, %H:%M', '%d.%m.%Y',
                '%a, %d %b %Y %H:%M:%S GMT', '%d %b %Y %H:%M:%S',
                '%a %b %d %H:%M:%S %Y', '%a %b %d %H:%M:%S GMT %Y', '%a %b %d %H:%M:%S UTC %Y',
                '%Y%m%dT%H%M%SZ', '%Y%m%dT%H%M%S', '%Y%m%d %H%M%S'
            ]
        ),
        TRY_CAST("time" AS TIMESTAMPTZ)::TIMESTAMP
    )
END
