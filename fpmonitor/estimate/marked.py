"""Users with a mark that sites do not see: how many of them a same value links, with limits.

A mark is 0 or 1, such as "kept the value until later". `X = sum_v c_v F_1(p_v)` counts, with
`c_v = P(value v, marked)`, the share of users that are marked and are named by who picks one of all
users with the same value: groups are of all users, not of those that are marked. The test is that
of all users with `E exp(s phi) - 1` in place of its logarithm. Proof: docs/certificate/followed.md.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.estimate.averaging import clock, mean_scores
from fpmonitor.estimate.cohorts import SHARE_LIMITS_SHARE, share_limits
from fpmonitor.estimate.limits import DESIGNS, Side, above_chords, falling
from fpmonitor.estimate.linking import LinkedFunction
from fpmonitor.estimate.looks import Serving, base_cells, serving_of
from fpmonitor.estimate.poisson import poisson_laws
from fpmonitor.estimate.programme import envelope, sharpest_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.estimate.exposure import Sign

_RARE = 1e-6  # share of marked users, for which `ln E exp` and `E exp - 1` are the same
_LARGEST_EXPONENT = 600.0
_SIGNS: tuple[Sign, Sign] = (-1, 1)


def marked_limits(
    counts: NDArray[np.int64],
    marked: NDArray[np.int64],
    *,
    users: int,
    population: int,
    delta: float,
) -> tuple[float, float]:
    """Lower and upper limit of the share of n users who are marked and named by their value.

    Each is ever wrong with probability at most `delta`, at every number of users.

    Args:
        counts: int64, shape (s,): sizes of groups of all observed users.
        marked: int64, same shape: marked users in groups of each size.
        users: All observed users.
        population, delta: `n`, users, and the tolerated probability of error of each limit.
    """
    # The bound rises with the share of the marked, so an upper limit of it stands for it.
    most = share_limits(int(marked.sum()), users, delta * SHARE_LIMITS_SHARE)[1]
    serving, _, _ = serving_of(users, 0.0)
    # X counts marked users only, so their share is a limit of it, too.
    lower, upper = 0.0, most
    if serving is None:
        return lower, upper
    log_term = math.log(serving.bases / (delta * (1 - SHARE_LIMITS_SHARE)))
    function = LinkedFunction(population=population)
    for sign in _SIGNS:
        side = _side(serving, function, users, sign=sign, log_term=log_term, most=most)
        # Weights by the whole group, summed over those of it who are marked.
        sums = side.weights.take(counts, axis=1, mode="clip") @ marked.astype(np.float64)
        limit = side.limit(sums, log_term)
        if sign < 0:
            upper = min(limit, most)
        else:
            lower = limit
    return min(lower, upper), upper


def _side(
    serving: Serving,
    function: LinkedFunction,
    users: int,
    *,
    sign: Sign,
    log_term: float,
    most: float,
) -> Side:
    """Return the tests of one side, where at most a share of the users is marked."""
    weights, fixed, curves = [], [], []
    for mean, phi, exposures, bounds in _designs(serving, function, sign, log_term):
        thinnings = clock(users, mean)
        by_user, charge = mean_scores(phi, thinnings, sign, users)
        weights.append(by_user)
        fixed.append(thinnings.log_factor - charge - math.log(len(DESIGNS)))

        def bound(
            at: NDArray[np.float64],
            exposures: NDArray[np.float64] = exposures,
            bounds: NDArray[np.float64] = bounds,
        ) -> NDArray[np.float64]:
            return most * np.interp(at / most, exposures, bounds)

        corners = most * exposures
        curves.append(above_chords(bound, corners[(corners > 0) & (corners < 1)]))
    size = max(map(len, weights))
    return Side(
        sign=sign,
        weights=np.array([np.pad(each, (0, size - len(each))) for each in weights]),
        scales=np.full(len(weights), float(sign)),
        fixed=np.array(fixed),
        curves=falling(np.array(curves), sign),
    )


@lru_cache(maxsize=16)
def _designs(
    serving: Serving, function: LinkedFunction, sign: Sign, log_term: float
) -> tuple[tuple[float, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]], ...]:
    """Design scores: mean of a thinning, score by count, and vertices of the bound.

    They follow from the question alone. The weights are those of an exposure of which few are
    marked; the bound is proved for them, whatever they are.
    """
    plain, share = base_cells(serving, function, min(DESIGNS))
    laws = plain.laws
    # Chosen values at a tiny share are the same programme: ln(1 + x) is x there.
    rare = poisson_laws(laws.mean, function, min(DESIGNS), _RARE)
    found = []
    for budget in DESIGNS:
        weights = sharpest_weights(
            rare,
            sign=sign,
            budget=budget,
            # All exponents of the rare programme are smaller by the same factor.
            log_term=_RARE * log_term / max(share, 1 - share),
            monotone=False,
        )
        largest = np.abs(weights * (laws.starts[1:] - 1)).max(initial=1e-9)
        weights = weights * min(_LARGEST_EXPONENT / largest, 1.0)
        bounds = laws.mean * plain.marked_bounds(weights, sign)
        exposures, corners = envelope(plain.exposure[sign], bounds, sign)
        # What the share of the marked is multiplied with must not be negative at exposure 0.
        corners = corners - min(float(corners[0]), 0.0)
        by_count = np.repeat(weights, np.diff(laws.starts))
        phi = np.zeros(int(laws.starts[-1]) + 1)
        phi[1 : len(by_count) + 1] = by_count * np.arange(1, len(by_count) + 1)
        found.append((laws.mean, phi, exposures, corners))
    return tuple(found)
