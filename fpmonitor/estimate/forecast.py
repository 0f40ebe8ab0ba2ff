"""What a model expects of the exposure, and whether it was right about users who are known.

The model is a Pitman-Yor process: values turn up as often as a power law of their number has it.
Given counts, the share of a value and the mass of all unseen ones are beta variables, so that the
expected exposure is a sum over the count spectrum. Nothing is promised by it: limits come from
`estimate.limits`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from fpmonitor.estimate.exposure import empirical_exposure, exposure_probability
from fpmonitor.spectrum import CountSpectrum

MOST_TRAINED = 10  # times the users it is fitted on are what it is tested on, at least
FEWEST_USERS = 200  # that it is fitted on in a test
_OFF, _OFF_SHARE = 0.02, 0.2  # what a test may be off by: of the users, or of the exposure
_TESTS = 3
# Of the logit of the discount, and of the logarithm of strength plus discount.
_BOUNDS = ((-12.0, 12.0), (-15.0, 25.0))
_STARTS = ((-2.0, 1.0), (0.0, 3.0))
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTest:
    """How a forecast did where the answer is known."""

    fitted: int  # Users it was fitted on, drawn from those observed.
    # What it said of the exposure of all that were observed, the worst of its tests, a share.
    predicted: float
    observed: float  # Their exposure, a share.

    @property
    def passed(self) -> bool:
        """Whether it was off by at most 2 % of the users, or a fifth of the exposure."""
        return _distance(self.predicted, self.observed) <= 1


def _distance(predicted: float, observed: float) -> float:
    return abs(predicted - observed) / max(_OFF, _OFF_SHARE * observed)


def fit_power_law(spectrum: CountSpectrum) -> tuple[float, float]:
    """Discount in (0, 1), and strength above minus that, of the most likely process for a spectrum.

    Notes:
        The exchangeable partition probability of Pitman 1995, "Exchangeable and partially
        exchangeable random partitions".
    """
    gammaln = scipy.special.gammaln
    users, values = spectrum.users, spectrum.support

    def improbable(point: NDArray[np.float64]) -> float:
        discount, strength = _law_of(point)
        new = (values - 1) * math.log(discount) + gammaln(strength / discount + values)
        new -= gammaln(strength / discount + 1) + gammaln(strength + users)
        again = gammaln(spectrum.counts - discount) - gammaln(1 - discount)
        return -float(new + gammaln(strength + 1) + again @ spectrum.values)

    found = [
        scipy.optimize.minimize(
            improbable,
            start,
            method="Nelder-Mead",
            bounds=_BOUNDS,
            options={"xatol": 1e-3, "fatol": 1e-3},
        )
        for start in _STARTS
    ]
    return _law_of(min(found, key=lambda each: float(each.fun)).x)


def _law_of(point: NDArray[np.float64]) -> tuple[float, float]:
    # Both are in their ranges at any point, so the search needs no constraints.
    discount = 1 / (1 + math.exp(-point[0]))
    return discount, math.exp(point[1]) - discount


def expected_exposure(
    spectrum: CountSpectrum, law: tuple[float, float], *, k: int, population: int
) -> float:
    """`Q(n, k)` as a process of `fit_power_law` expects it, given the counts of those observed.

    Notes:
        A value with count c has probability `Beta(c - d, t + m - c + d)`; taken in proportion to
        it, that is `Beta(c + 1 - d, ...)`, for unseen values with c = 0 (Pitman 1996, "Some
        developments of the Blackwell-MacQueen urn scheme").
    """
    users, values = spectrum.users, spectrum.support
    discount, strength = law
    counts = np.append(0.0, spectrum.counts)
    levels = (_NODES + 1) / 2
    shares = scipy.special.betaincinv(
        (counts + 1 - discount)[:, np.newaxis],
        (strength + users - counts + discount)[:, np.newaxis],
        levels,
    )
    exposed = exposure_probability(np.clip(shares, 1e-300, 1), k=k, population=population)
    mass = np.append(
        strength + discount * values, (spectrum.counts - discount) * spectrum.values
    ) / (strength + users)
    return min(float(mass @ (exposed @ (_WEIGHTS / 2))), 1.0)


def back_test(
    spectrum: CountSpectrum, *, k: int, population: int, rng: np.random.Generator
) -> BackTest | None:
    """Fit on a part of the users and predict the exposure of all; None where they are too few.

    The part is to the users as these are to the population, and at most a tenth.

    Args:
        rng: Draws the parts.
    """
    users = spectrum.users
    # A test that reaches less far than the forecast would say nothing of it.
    fitted = min(users // MOST_TRAINED, users * users // population)
    if fitted < FEWEST_USERS:
        return None
    counts = np.repeat(spectrum.counts, spectrum.values)
    observed = empirical_exposure(spectrum, k)
    predicted = []
    for _ in range(_TESTS):
        drawn = rng.multivariate_hypergeometric(counts, fitted, method="marginals")
        part = CountSpectrum.from_counts(drawn)
        predicted.append(expected_exposure(part, fit_power_law(part), k=k, population=users))
    worst = max(predicted, key=lambda each: _distance(each, observed))
    return BackTest(fitted=fitted, predicted=worst, observed=observed)
