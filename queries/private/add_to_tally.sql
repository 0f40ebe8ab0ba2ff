INSERT INTO tally (ask, outcome, messages) VALUES ($ask, $outcome, $messages)
ON CONFLICT (ask, outcome) DO UPDATE SET messages = tally.messages + excluded.messages
