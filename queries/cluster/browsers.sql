-- Browser of each user, as the first of some values tells it that does, and what all of these tell of automation.
SELECT {keep}, COALESCE({families}) AS family, COALESCE({versions}) AS version, {traits} AS traits FROM {users} AS u {joins}
