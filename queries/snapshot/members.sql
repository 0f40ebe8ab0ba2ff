-- Members of all logs that were stored, what each was taken for, and the records with a value.
SELECT path, kind, sum(records)::BIGINT
FROM (
    SELECT unnest(from_json(account, '{"members": [{"path": "VARCHAR", "kind": "VARCHAR", "records": "BIGINT"}]}').members, recursive := true)
    FROM batch
    WHERE account IS NOT NULL
)
GROUP BY path, kind
