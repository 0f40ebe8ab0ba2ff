"""E-values: evidence about the exposure of one window of users, for checks that never end.

The e-value of a set against "above the budget" is `R_m / exp(W(Q*))` of `averaging.py`, bounded
from below by a sum over values: its mean is at most 1 for every distribution above the budget. The
other side tells the same about distributions within it. Windows may share users (Xu and Ramdas
2023, "Online multiple testing with e-values") but where a run of windows is summed up. Proofs:
docs/certificate.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.estimate.averaging import AveragedScore, Base, averaged, design_base
from fpmonitor.estimate.criterion import Score
from fpmonitor.estimate.looks import design_cells
from fpmonitor.estimate.poisson import ExposureFunction
from fpmonitor.policy import AS_OBSERVED, Factors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.estimate.exposure import Sign
    from fpmonitor.spectrum import CountSpectrum

LEAST_USERS = 23  # fewer say nothing
_FIRST_MEAN, _RATIO = 20.0, 1.1  # of the designs, so that windows of similar size share one
_LARGEST_SHARE = 0.9  # of the users, that a design keeps
_FREE_FROM = 2.0  # times the mean: free weights refute larger populations far better
_SHARES_TOTAL = 2.11  # above the sum of 1 / (s ln(s)^2) over s from 2
_ROUNDING = 1e-9
_NO_EVIDENCE = -1e9  # nats


def log_share(number: int) -> float:
    """Logarithm of the share of delta that the test of a number, from 1, has; they add up to 1."""
    return -math.log(_SHARES_TOTAL * (number + 1)) - 2 * math.log(math.log(number + 1))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WindowTest:
    """E-values of the sets of one window."""

    # within, above: Scores against "above the budget" and against "within the budget"; None for
    # users too few.
    within: AveragedScore | None
    above: AveragedScore | None
    # How many values of each user a spectrum tells together, whose scores count by their mean: see
    # visits.md.
    draws: int = 1

    def log_within(self, spectrum: CountSpectrum) -> float:
        """Evidence that a set is within the budget, nats; its exponential is an e-value."""
        return _log_e(self.within, spectrum, self.draws)

    def log_above(self, spectrum: CountSpectrum) -> float:
        """Evidence that a set is above the budget, nats; its exponential is an e-value."""
        return _log_e(self.above, spectrum, self.draws)


def window_test(
    *,
    users: int,
    k: int,
    population: int,
    budget: float,
    log_terms: tuple[float, float],
    monotone: bool = False,
    factors: Factors = AS_OBSERVED,
) -> WindowTest:
    """Make the e-values of one window, from the number of its users and never from their values.

    Args:
        users: `m`, users of the window.
        log_terms: Evidence that would do, nats, at which each side is sharpest.
        monotone: Whether also the evidence for "above" must grow with the set.
    """
    if users < LEAST_USERS:
        return WindowTest(within=None, above=None)
    # Rounded down: a thinning keeps 0.9 of the users at most, and its mean is below their number.
    position = math.floor(math.log(_LARGEST_SHARE * users / _FIRST_MEAN) / math.log(_RATIO))
    function = ExposureFunction(k, population, factors)
    within, above = (
        averaged(
            _design(position, function, budget, sign=sign, log_term=term, monotone=monotone),
            users=users,
        )
        for sign, term in zip((-1, 1), log_terms, strict=True)
    )
    return WindowTest(within=within, above=above)


@lru_cache(maxsize=64)
def _design(
    position: int,
    function: ExposureFunction,
    budget: float,
    *,
    sign: Sign,
    log_term: float,
    monotone: bool,
) -> Base:
    full = _FIRST_MEAN * _RATIO**position
    cells = design_cells(full, function, budget)
    mean = cells.laws.mean
    return design_base(
        cells,
        sign=sign,
        budget=budget,
        log_term=log_term,
        share=_LARGEST_SHARE * mean / full,
        # A listed set above the budget holds a minimal one, whose evidence must not be smaller.
        monotone=monotone or sign < 0 or function.population <= _FREE_FROM * mean,
    )


def _log_e(test: AveragedScore | None, spectrum: CountSpectrum, draws: int) -> float:
    """Logarithm of an e-value, from the spectrum of all users of the window."""
    if test is None or math.isinf(test.charge):
        return _NO_EVIDENCE
    nats = test.base.sign * test.scale * Score(test.weights).mean_of(draws)(spectrum)
    # The mean of an e-value must stay at most 1, so all that rounding may do is taken off.
    lost = test.charge - test.clock.log_factor + _ROUNDING * (1 + abs(nats))
    return max(nats - lost - test.base.bound, _NO_EVIDENCE)


def go_on(run: Sequence[float], evidence: Sequence[float]) -> list[float]:
    """Run of each set after one window more: `max(1, M) e`, as logarithms.

    If no window is above the budget, given those before, the mean of the runs of several sets
    first reaches `A` after `A` windows or more, on average.
    """
    # ln max(1, M) = max(ln M, 0): docs/certificate/windows.md, the alarm.
    return [max(before, 0.0) + more for before, more in zip(run, evidence, strict=True)]


def log_mean(logs: Sequence[float]) -> float:
    """Logarithm of the mean of numbers given by their logarithms."""
    return float(np.logaddexp.reduce(np.asarray(logs))) - math.log(len(logs))


def taken_in(run: Sequence[float], before: Sequence[float]) -> list[float]:
    """Evidence that `go_on` took in to make a run of the one before, or a little less."""
    return [
        after - max(earlier, 0.0) - _ROUNDING * (1 + abs(after))
        for after, earlier in zip(run, before, strict=True)
    ]


def log_best(evidence: Sequence[Sequence[float]], prices: Sequence[float]) -> float:
    """Evidence of the windows from one of them on: of the one from which it is largest.

    If no window is above the budget, the windows from which it ever reaches `ln A` are at most one
    in `A`, on average; users may come again in windows that are not added up.

    Args:
        evidence: Of each window, in their order, that of each set, nats.
        prices: What the choice of each set costs, nats; the sum of their negative exponentials is 1
            at most over all sets that could have been chosen.
    """
    # From the last window backwards: each row is the product from one window to the last.
    sums = np.cumsum(np.asarray(evidence)[::-1], axis=0) - np.asarray(prices)
    return float(np.logaddexp.reduce(sums, axis=1).max())
