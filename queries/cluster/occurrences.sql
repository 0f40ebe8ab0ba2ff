-- Users of equal values are counted apart; which is which does not matter.
SELECT {columns}, high, low, row_number() OVER (PARTITION BY high, low ORDER BY low)::BIGINT - 1 AS occurrence FROM {coded}
