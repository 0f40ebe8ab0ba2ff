-- What an API returned on a visit; an API that was not asked has no row.
CREATE TABLE observation (visit_id INTEGER NOT NULL, api_id INTEGER NOT NULL, value_id INTEGER NOT NULL)
