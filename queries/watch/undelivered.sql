-- Changes of the verdict on a decision that nobody has been told of for sure, in their order.
SELECT notice_id, body FROM notice WHERE decision = $decision AND NOT delivered ORDER BY notice_id
