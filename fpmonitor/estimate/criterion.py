"""A test of one API set by one number computed from its count spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.spectrum import CountSpectrum


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """A score that grows with the API set, and the limit for each size of the set.

    The score of a set is the sum over its users of `weights[c]`, where `c` is the number of users
    that share the user's value. Weights that do not increase with `c` make the score monotone:
    a larger API set splits groups and can only raise it.

    Attributes
    ----------
    weights
        float64, non-increasing, not negative; `weights[c]` is the weight of one user in a group of
        `c`; `weights[0]` equals `weights[1]`; counts beyond the end have the last weight.
    limits
        float64, `limits[s]` is the limit of the score for sets of `s` APIs, non-increasing in `s`
        for a criterion that allows (score <= limit) and for one that blocks (score > limit).
    largest
        Larger sets are not tested by themselves, and always hold; None: there are none.

    Raises
    ------
    InputError
        Weights or limits that increase, or are not numbers.
    """

    weights: NDArray[np.float64]
    limits: NDArray[np.float64]
    largest: int | None = None

    def __post_init__(self) -> None:
        for name in ("weights", "limits"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            if array.ndim != 1 or not array.size or np.isnan(array).any():
                raise InputError(f"criterion: {name} must be a non-empty list of numbers")
            if np.any(np.diff(array) > 0):
                raise InputError(f"criterion: {name} must not increase")
            object.__setattr__(self, name, array)
        if self.weights.size < 2 or self.weights[-1] < 0:
            raise InputError("criterion: weights must be at least two, and not negative")

    def score(self, spectrum: CountSpectrum) -> float:
        """Sum of the weights of all users of the spectrum."""
        return score(self.weights, spectrum)

    def holds(self, spectrum: CountSpectrum, size: int) -> bool:
        """Whether the score of a set of `size` APIs is within its limit."""
        tested = self.largest is None or size <= self.largest
        return not tested or bool(self.score(spectrum) <= self.limits[size])


def score(weights: NDArray[np.float64], spectrum: CountSpectrum) -> float:
    """Sum over all users of `weights[c]`; counts beyond the end have the last weight."""
    weight = weights.take(spectrum.counts, mode="clip")
    return float(weight.dot(spectrum.members.astype(float)))


@dataclass(frozen=True, slots=True, eq=False)
class Refutation:
    """A test of single sets by a score that need not grow with the set.

    Attributes
    ----------
    weights
        float64, `weights[c]` is the weight of one user in a group of `c`; counts beyond the end
        have the last weight.
    limits
        float64, a set of `s` APIs is above the budget when its score exceeds `limits[s]`.
    monotone
        Whether the score grows with the set.
    """

    weights: NDArray[np.float64]
    limits: NDArray[np.float64]
    monotone: bool

    def refutes(self, spectrum: CountSpectrum, size: int) -> bool:
        """Whether a set of `size` APIs is above the budget."""
        return score(self.weights, spectrum) > float(self.limits[size])
