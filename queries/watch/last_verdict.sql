-- The verdict on a decision that was noticed last.
SELECT verdict FROM notice WHERE decision = $decision ORDER BY notice_id DESC LIMIT 1
