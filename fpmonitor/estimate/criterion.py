"""A test of one API set by one number computed from its count spectrum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.estimate.mixture import Mixture, log_evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.spectrum import CountSpectrum


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """One number of a set: sums of weights over its users, put together.

    The i-th sum is that of `weights[i, c]` over all users, where `c` is the number of users that
    share the user's value.

    Raises:
        InputError: Weights that are not numbers, or fewer than two.
    """

    # float64, shape (I, C): weight of one user in a group of `c`; `weights[:, 0]` equals
    # `weights[:, 1]`, counts beyond the end have the last weight.
    weights: NDArray[np.float64]
    # scales, offsets: float64, shape (I,): the number is the evidence of a mixture, nats, see
    # `log_evidence`. Null where the single sum is the number.
    scales: NDArray[np.float64] | None = None
    offsets: NDArray[np.float64] | None = None
    least: float = 0.0  # What is taken from it, or what it is taken from.
    # Whether the evidence falls while the set grows, and the number is what it has lost.
    falls: bool = False

    def __post_init__(self) -> None:
        weights = np.atleast_2d(np.array(self.weights, dtype=np.float64))
        weights.flags.writeable = False
        if weights.ndim != 2 or weights.shape[1] < 2 or np.isnan(weights).any():
            raise InputError("criterion: weights must be at least two numbers")
        object.__setattr__(self, "weights", weights)

    @classmethod
    def of(cls, mixture: Mixture) -> Self:
        """Score by the evidence of a mixture; where no user is exposed it is 0."""
        offsets = mixture.offsets()
        start = float(log_evidence(np.zeros(offsets.size), mixture.scales, offsets))
        return cls(mixture.weights, mixture.scales, offsets, start, falls=mixture.sign < 0)

    @property
    def monotone(self) -> bool:
        """Whether no weight increases with the count, nor is negative."""
        return not (np.diff(self.weights, axis=1) > 0).any() and bool(self.weights.min() >= 0)

    def mean_of(self, draws: int) -> Self:
        """Return the mean of the score over draws of one value of each user, told together."""
        # The spectra of all draws are added up, so each sum is `draws` times the mean.
        return self if draws == 1 else replace(self, weights=self.weights / draws)

    def limits_of(self, log_terms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return where the evidence is so much, nats: a score at most, or at least, so large."""
        return self.least - log_terms if self.falls else log_terms - self.least

    def of_sums(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the number for sums of shape (..., I)."""
        if self.scales is None or self.offsets is None:
            return sums[..., 0]
        found = log_evidence(sums, self.scales, self.offsets)
        return self.least - found if self.falls else found - self.least

    def evidence(self, spectrum: CountSpectrum) -> float:
        """Return the evidence of a mixture, nats."""
        number = self(spectrum)
        return self.least - number if self.falls else self.least + number

    def __call__(self, spectrum: CountSpectrum) -> float:
        """Return the number of a set with this spectrum."""
        # Weights are multiples of a power of 2 (`averaging.averaged`): no order changes the sums.
        taken = self.weights.take(spectrum.counts, axis=1, mode="clip")
        return float(self.of_sums(taken.dot(spectrum.members.astype(float))))


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """A score that grows with the API set, and the limit for each size of the set.

    Weights that do not increase with the count make the score monotone: a larger API set splits
    groups and can only raise it.

    Raises:
        InputError: Weights or limits that increase, or are not numbers.
    """

    score: Score  # The score of a set; or the weights of a plain sum, see `Score`.
    # float64, `limits[s]` is the limit of the score for sets of `s` APIs, non-increasing in `s` for
    # a criterion that allows (score <= limit) and for one that blocks (score > limit).
    limits: NDArray[np.float64]
    # Larger sets are not tested by themselves, and always hold; None: there are none.
    largest: int | None = None

    def __post_init__(self) -> None:
        if not self.score.monotone:
            raise InputError("criterion: weights must not increase, nor be negative")
        limits = np.array(self.limits, dtype=np.float64)
        limits.flags.writeable = False
        if limits.ndim != 1 or not limits.size or np.isnan(limits).any():
            raise InputError("criterion: limits must be a non-empty list of numbers")
        if (limits[1:] > limits[:-1]).any():
            raise InputError("criterion: limits must not increase")
        object.__setattr__(self, "limits", limits)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the score."""
        return self.score.weights

    def holds(self, spectrum: CountSpectrum, size: int) -> bool:
        """Whether the score of a set of `size` APIs is within its limit."""
        tested = self.largest is None or size <= self.largest
        # On the limit is within it, for allowing and for blocking: `refutes` needs more.
        return not tested or bool(self.score(spectrum) <= self.limits[size])


@dataclass(frozen=True, slots=True, eq=False)
class Refutation:
    """A test of single sets by a score that need not grow with the set."""

    score: Score  # See `Score`.
    # float64, a set of `s` APIs is above the budget when its score exceeds `limits[s]`.
    limits: NDArray[np.float64]
    monotone: bool  # Whether the score grows with the set.

    def refutes(self, spectrum: CountSpectrum, size: int) -> bool:
        """Whether a set of `size` APIs is above the budget."""
        return self.score(spectrum) > float(self.limits[size])
