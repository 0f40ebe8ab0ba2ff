-- What users were told to hold in each visit, where no session is known: each visit is one of its own.
SELECT api_id, user_id, session, value_id, observation.rowid AS place FROM observation JOIN inside USING (visit_id)
