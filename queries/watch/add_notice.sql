INSERT INTO notice VALUES ($notice, $decision, $verdict, $body, false)
