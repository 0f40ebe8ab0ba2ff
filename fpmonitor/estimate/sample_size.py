"""How many users an undecided API set needs if one looks while they come in, as a forecast.

A distribution of the value probabilities is fitted to the spectrum. By the user, the score of a set
moves about its mean as users come in; the set is decided at the look at which it crosses the limit
of the certificate, which holds at every look. Means, spreads and limits are computed for a few
numbers of users; between them scores are taken for a Gaussian process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from fpmonitor.estimate.looks import Criteria
    from fpmonitor.spectrum import CountSpectrum

MOST_USERS = 10**8
_STEP = 2.25  # between the numbers of users at which limits are computed, and its square from
_FAR = 30  # times the users of today on
_LOOK = 1.05  # between the looks of somebody who waits for a decision
_PATHS = 2000
_ENOUGH = 0.95  # of the paths are decided: the others count with the last look
_LARGEST_UNCERTAIN_COUNT = 200
_GRID_POINTS = 150
_ITERATIONS = 200
_STEPS = 500  # that stand for the weights of all counts
_POWERS = (0.0, -1.0, 1.0)  # of the fits, the most likely one first


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FittedDistribution:
    """Probabilities of values, and the share of the users that has values of each.

    Attributes:
        probabilities: float64, shape (s,), in (0, 1].
        shares: float64, shape (s,), not negative, adding up to 1.
    """

    probabilities: NDArray[np.float64]
    shares: NDArray[np.float64]


def fit_law(spectrum: CountSpectrum, *, population: int, power: float = 0.0) -> FittedDistribution:
    """Most likely distribution of the value probabilities, nearly: counts as Poisson variables.

    Values of many users keep their observed share. For the others the likelihood of the spectrum,
    values not seen included, is raised by a fixed number of steps of the EM algorithm, which leaves
    the distribution as it was at the start where the data say nothing.

    Args:
        population: `n`, users; the distribution reaches down to a thousandth of one of them.
        power: Of the probability, which the shares of the users begin with; 0 is log-uniform.

    Notes:
        Nonparametric maximum likelihood of a mixture (Laird 1978), here of Poisson distributions
        cut off at 0.
    """
    users = spectrum.users
    certain = spectrum.counts > _LARGEST_UNCERTAIN_COUNT
    counts, values = spectrum.counts[~certain], spectrum.values[~certain]
    most = min(2.0 * _LARGEST_UNCERTAIN_COUNT, users)
    means = np.geomspace(1e-3 * min(1.0, users / population), most, _GRID_POINTS)
    column = counts[:, np.newaxis]
    # Expected number of values with each count, for all users at one mean.
    kernel = (
        np.exp(scipy.special.xlogy(column - 1, means) - means - scipy.special.gammaln(column + 1))
        * users
    )
    seen = -np.expm1(-means) / means * users
    shares = means**power / np.sum(means**power)
    for _ in range(_ITERATIONS if counts.size else 0):
        # Divided by the chance to be seen: values that nobody has are in no spectrum.
        shares = shares * (kernel.T @ (values / np.maximum(kernel @ shares, 1e-300))) / seen
    large = spectrum.counts[certain] * spectrum.values[certain] / users
    shares = shares * ((1 - large.sum()) / shares.sum())
    return FittedDistribution(
        probabilities=np.concatenate([means / users, spectrum.counts[certain] / users]),
        shares=np.concatenate([shares, large]),
    )


@dataclass(frozen=True, slots=True)
class Forecast:
    """Observed users at which a set is decided, with looks 5 % apart; None: over 100 million.

    Attributes:
        mean: On average, if values are distributed as they seem to be.
        low, high: Fewer, and more, are needed in one case of ten each, whichever of the
            distributions that fit is the right one.
    """

    mean: int | None
    low: int | None
    high: int | None


def users_needed(
    sets: Iterable[tuple[CountSpectrum, int]],
    tests: Callable[[int], Criteria],
    *,
    users: int,
    population: int,
    generator: np.random.Generator,
) -> tuple[Forecast, ...]:
    """Forecast for each set at which of the looks to come it is decided.

    Takes up to a second for each number of users at which limits are computed, ten at most from
    1,000 users on, and 0.1 s for each set.

    Args:
        sets: Count spectrum of each set, and its number of APIs.
        tests: Designs those of so many users; the first of the menu are enough.
        users: `m`, users observed so far.
        generator: Of the paths, which are the same for all sets.

    Notes:
        Let `D(m)` be the score by the user less its mean, in standard deviations of one user. `m
        D(m)` has independent increments of variance 1 a user: these paths give the average. Read
        backwards, `D` is a martingale: `D(m') - D(m)` has the variance `1 / m - 1 / m'` whatever
        the mean is, so paths from the score of today tell what sampling leaves open. What no sample
        tells, where the population is much larger, is in the range of several fits. Left out are
        how spread and limits change with the distribution, and that allowing and blocking have
        different scores.
    """
    number = max(math.ceil(math.log(MOST_USERS / users) / math.log(_LOOK)), 1)
    looks = np.ceil(users * _LOOK ** np.arange(number + 1))
    moves = generator.standard_normal((_PATHS, number))
    paths = _Paths(
        looks=looks,
        fitted=np.cumsum(moves * np.sqrt(np.diff(looks)), axis=1) / looks[1:],
        seen=np.cumsum(moves * np.sqrt(-np.diff(1 / looks)), axis=1),
        tests=cache(tests),
    )

    def forecast(spectrum: CountSpectrum, size: int) -> Forecast:
        laws = (fit_law(spectrum, population=population, power=power) for power in _POWERS)
        means, lows, highs = zip(*(paths.ends(law, size) for law in laws), strict=True)
        return Forecast(_whole(means[0]), _whole(min(lows)), _whole(max(highs)))

    return tuple(forecast(spectrum, size) for spectrum, size in sets)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Paths:
    """Scores by the user less their means, in standard deviations of one user, at looks to come.

    Attributes:
        looks: float64, shape (l + 1,), users at each, those of today first.
        fitted, seen: float64, shape (paths, l): with the fitted mean; and from the score of today,
            whatever the mean is.
        tests: Those of a number of users.
    """

    looks: NDArray[np.float64]
    fitted: NDArray[np.float64]
    seen: NDArray[np.float64]
    tests: Callable[[int], Criteria]

    def ends(self, law: FittedDistribution, size: int) -> tuple[float, float, float]:
        """Users on average, and what they are below and above in one case of ten each."""
        observed, distances = self._borders(law, size)
        ahead = self.looks[1:][self.looks[1:] <= observed[-1]]
        # Distances are nearly linear in the standard deviation of a mean.
        within, above = (
            np.interp(-(ahead**-0.5), -(np.array(observed) ** -0.5), side)
            for side in np.transpose(distances)
        )
        average, whichever = (
            _decided_at((paths <= within) | (paths > above), ahead)
            for paths in (self.fitted[:, : ahead.size], self.seen[:, : ahead.size])
        )
        # A few late paths would make the mean infinite, whatever all others do.
        late = np.isinf(average)
        average[late] = math.inf if late.mean() > 1 - _ENOUGH else ahead[-1]
        low, high = np.quantile(whichever, (0.1, 0.9), method="nearest")
        return float(average.mean()), float(low), float(high)

    def _borders(
        self, law: FittedDistribution, size: int
    ) -> tuple[list[int], list[tuple[float, float]]]:
        """Numbers of users, and the distances at each, until nearly all paths are decided."""
        users = int(self.looks[0])
        observed, decided = [users], 0.0
        distances = [_distances(self.tests(users), law, size, users)]
        while decided < _ENOUGH and observed[-1] < self.looks[-1]:
            step = _STEP if observed[-1] < _FAR * users else _STEP**2
            now = min(math.ceil(observed[-1] * step), int(self.looks[-1]))
            observed.append(now)
            distances.append(_distances(self.tests(now), law, size, now))
            spreads = np.sqrt([(1 - users / now) / now, 1 / users - 1 / now])
            within, above = scipy.special.ndtr(np.divide.outer(distances[-1], spreads))
            decided = float((within + 1 - above).min())
        return observed, distances


def _decided_at(decided: NDArray[np.bool_], looks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Users at the first look that decides each path; infinite where none does."""
    first: NDArray[np.float64] = looks[decided.argmax(axis=1)]
    return np.where(decided.any(axis=1), first, math.inf)


def _whole(users: float) -> int | None:
    """Three digits of a number of users; None for more than are forecast."""
    return None if users > MOST_USERS else int(float(f"{users:.3g}"))


def _distances(
    criteria: Criteria, law: FittedDistribution, size: int, users: int
) -> tuple[float, float]:
    """`D` up to which a set is allowed, and above which it is blocked."""
    sides = (criteria.allowing, criteria.blocking)
    within, above = (
        never
        if mixture is None
        else _distance(
            mixture.scores[0].weights, mixture.criticals(float(terms[size]))[0], law, users
        )
        for mixture, terms, never in zip(
            sides, criteria.log_terms, (-math.inf, math.inf), strict=True
        )
    )
    return within, above


def _distance(
    weights: NDArray[np.float64], limit: float, law: FittedDistribution, users: int
) -> float:
    """Limit of the score less its mean, by the user and in standard deviations of one user.

    For a Poisson count `C` of mean `c`, `E C h(C) = c E h(C + 1)` and
    `E C^2 h(C) = c (E h(C + 1) + c E h(C + 2))`. That the counts add up to the users takes away the
    part of the variance that their sum explains.
    """
    starts = np.unique(np.geomspace(1, weights.size - 1, _STEPS).astype(np.intp))
    steps = np.append(weights[(starts[:-1] + starts[1:] - 1) // 2], weights[-1])
    last, drops = steps[-1], -np.diff(steps)
    square_drops = -np.diff(steps**2)
    means = users * law.probabilities
    first, second = (
        np.nan_to_num(scipy.special.pdtr(starts[1:] - 1 - more, means[:, np.newaxis]))
        for more in (1, 2)
    )
    weight = first @ drops + last
    square = first @ square_drops + last**2 + means * (second @ square_drops + last**2)
    with_sum = weight + means * (second @ drops + last - weight)
    variance = law.shares @ (square - means * weight**2) - (law.shares @ with_sum) ** 2
    mean = float(law.shares @ weight)
    return (limit / users - mean) / math.sqrt(max(float(variance), 1e-12))
