SELECT family, version, traits, count(*) AS users FROM ({browsers}) AS browser GROUP BY family, version, traits
