-- Browser of each user, as the first of some values tells it that does, and what all of these tell of automation.
SELECT {columns}, COALESCE({families}, -1) AS family, COALESCE({versions}, 0) AS version, {traits} AS traits FROM {users} AS coded_user {joins}
