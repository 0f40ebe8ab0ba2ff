-- The number of the last check of a decision within its horizons.
SELECT COALESCE(max(number), 0) FROM certified_check WHERE decision = $decision AND horizon = $horizon
