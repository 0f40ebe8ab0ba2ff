SELECT COALESCE(max(records), 0)::BIGINT FROM staged_user
