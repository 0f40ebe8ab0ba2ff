"""Limits where the possible values were declared: exact ones for each value, at every look.

The share of each value has limits of its own, and exposure cannot be more than within these. That
is sharp where values are few, such as tiers, and says little where they are many, where scores are
better: both have a part of delta, fixed beforehand, and the sharper one holds. Theorem and proof:
docs/certificate.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.estimate.bounds import check_support
from fpmonitor.estimate.exposure import exposure_probability, share_of_most_exposed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.spectrum import CountSpectrum

PART = 0.25  # of delta, where scores have the rest
_PRIOR = 0.5  # of the mixture: as sharp as any for shares that are not known beforehand
_HALVINGS = 100
_ROUNDING = 1e-9  # nats, of logarithms of up to 1e10


def declared_share_limits(
    counts: NDArray[np.int64], users: int, nats: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper limits of the shares of values, together at every look.

    A share p is ruled out when `B(c + 1/2, m - c + 1/2) / B(1/2, 1/2) >= e^nats p^c (1 - p)^(m -
    c)`: the left side over the right is a martingale, of mean 1, where p is the share.

    Args:
        counts: Users with each value, shape (V,).
        users: `m`, observed users.
        nats: `ln(1 / level)` of each value.
    """
    c = counts.astype(np.float64)
    level = scipy.special.betaln(c + _PRIOR, users - c + _PRIOR)
    level -= scipy.special.betaln(_PRIOR, _PRIOR) + nats + _ROUNDING * (1 + nats)
    level -= 1e-12 * np.abs(level)

    def ruled_out(p: NDArray[np.float64]) -> NDArray[np.bool_]:
        likely = scipy.special.xlogy(c, p) + scipy.special.xlog1py(users - c, -p)
        return np.asarray(likely <= level)

    ends = []
    for end in (0.0, 1.0):
        out, possible_shares = np.full(c.shape, end), c / users
        for _ in range(_HALVINGS):
            middle = (out + possible_shares) / 2
            beyond = ruled_out(middle)
            out, possible_shares = (
                np.where(beyond, middle, out),
                np.where(beyond, possible_shares, middle),
            )
        ends.append(out)
    lower, upper = ends
    return lower, upper


def declared_limits(
    spectrum: CountSpectrum, support: int, *, k: int, population: int, delta: float
) -> tuple[float, float]:
    """Lower and upper limit of the exposure where users can have `support` values, both together.

    Args:
        spectrum: Count spectrum of the observed users.
        support: Number of values that users can have, seen or not, declared before they were seen.
        k, population: Anonymity threshold and `n`, users.
        delta: Tolerated probability that one of the limits is ever wrong.

    Notes:
        `p F(p)` grows up to one share and falls beyond it, so its extremes over an interval are at
        its ends or at that share. `p (1 - F(p))`, the part of a value's users who are not exposed,
        grows.
    """
    check_support(spectrum, support)
    unseen = support - spectrum.support
    counts = np.append(spectrum.counts, 0)
    values = np.append(spectrum.values, unseen)
    lower, upper = declared_share_limits(counts, spectrum.users, math.log(support / delta))
    worst = np.clip(share_of_most_exposed(k, population), lower, upper)
    at = np.stack([lower, upper, worst])
    exposed = exposure_probability(np.clip(at, 1e-300, 1), k=k, population=population)
    exposed, safe = at * exposed, at * (1 - exposed)
    least = max(exposed[:2].min(axis=0) @ values, 1 - safe[1] @ values)
    most = min(exposed[2] @ values, 1 - safe[0] @ values)
    return max(float(least) * (1 - 1e-9) - 1e-12, 0.0), min(float(most) * (1 + 1e-9) + 1e-12, 1.0)
