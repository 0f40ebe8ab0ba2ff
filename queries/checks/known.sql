-- The number of the check of a decision on some data, if it was made before.
SELECT number FROM certified_check WHERE decision = $decision AND horizon = $horizon AND digest = $digest
