"""The finaliser of SplitMix (Steele, Lea, Flood 2014): 64-bit words that look independent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the step of SplitMix: 2^64 divided by the golden ratio
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def splitmix64(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64-bit words one to one; 0 stays 0, so add `GOLDEN` where that matters."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))
