"""Limits where the possible values were declared: exact ones for each value.

The share of each value has limits of its own, and exposure cannot be more than within these. That
is sharp where values are few, such as tiers, and says little where they are many, where scores are
better: both have a part of delta, fixed beforehand, and the sharper one holds. Theorem and proof:
docs/certificate.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from fpmonitor.estimate.bounds import check_support
from fpmonitor.estimate.exposure import exposure_probability, share_of_most_exposed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.policy import Look
    from fpmonitor.spectrum import CountSpectrum

UNSEEN = 0.1  # of their part of delta: for all values together that nobody had
_PRIOR = 0.5  # of the mixture: as sharp as any for shares that are not known beforehand
_HALVINGS = 100
_ROUNDING = 1e-9  # nats, of logarithms of up to 1e10


class Looked(NamedTuple):
    """Tolerated probability of error, and whether it is for one look or for every one."""

    delta: float
    once: bool = False

    @classmethod
    def of(cls, delta: float, look: Look | None, *, once: bool = False) -> Looked:
        """Return what is left at a look: the first and all later ones have a half each."""
        return cls(delta if look is None else delta / 2, once or look == "first")


def declared_share_limits(
    counts: NDArray[np.int64], users: int, nats: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper limits of the shares of values, together at every look.

    A share p is ruled out when `B(c + 1/2, m - c + 1/2) / B(1/2, 1/2) >= e^nats p^c (1 - p)^(m -
    c)`: the left side over the right is a martingale, of mean 1, where p is the share.

    Args:
        counts: Users with each value, shape (V,).
        nats: `ln(1 / level)` of each value.
    """
    c = counts.astype(np.float64)
    level = scipy.special.betaln(c + _PRIOR, users - c + _PRIOR)
    level -= scipy.special.betaln(_PRIOR, _PRIOR) + nats + _ROUNDING * (1 + nats)
    # Relative, as these logarithms reach 1e10: what rounding adds must rule nothing out.
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
        # The end that is ruled out: limits are never too narrow.
        ends.append(out)
    lower, upper = ends
    return lower, upper


def share_limits_once(
    counts: NDArray[np.int64], users: int, nats: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper limits of the shares of values at one look: Clopper and Pearson 1934.

    Arguments as of `declared_share_limits`; each side has half of the level.
    """
    c, tail = counts.astype(np.float64), math.exp(-nats - _ROUNDING * (1 + nats)) / 2
    rest = users - c
    lower = scipy.special.betaincinv(np.maximum(c, 1), rest + 1, tail)
    upper = 1 - scipy.special.betaincinv(np.maximum(rest, 1), c + 1, tail)
    return np.where(c > 0, lower, 0.0), np.where(rest > 0, upper, 1.0)


def declared_limits(
    spectrum: CountSpectrum,
    support: int,
    *,
    k: int,
    population: int,
    looked: Looked,
    others: bool = False,
) -> tuple[float, float]:
    """Lower and upper limit of the exposure where users can have `support` values, both together.

    Args:
        support: Number of values that users can have, seen or not, declared before they were seen.
        looked: Tolerated probability that one of the limits is wrong, ever or at the one look.
        others: Whether other users may have other values, of which none was seen.

    Notes:
        `p F(p)` grows up to one share and falls beyond it, so its extremes over an interval are at
        its ends or at that share. `p (1 - F(p))`, the part of a value's users who are not exposed,
        grows.
    """
    check_support(spectrum, support)
    # The last is that of all declared values that nobody had.
    counts = np.append(spectrum.counts, 0)
    limits = share_limits_once if looked.once else declared_share_limits
    nats = math.log(support / looked.delta / (1 - UNSEEN))
    lower, upper = limits(counts, spectrum.users, nats)
    # Where p F(p) is largest within the limits of each value.
    worst = np.clip(share_of_most_exposed(k, population), lower, upper)
    at = np.stack([lower, upper, worst])
    exposed = exposure_probability(np.clip(at, 1e-300, 1), k=k, population=population)
    exposed, safe = at * exposed, at * (1 - exposed)
    seen, unseen = spectrum.values, support - spectrum.support
    together = 0.0  # share of all who have a value that nobody had
    if unseen or others:
        # Which values nobody had is seen only by looking: so all sets of as many have their level.
        sets = _log_sets(support, unseen) - math.log(UNSEEN * looked.delta)
        together = float(limits(counts[-1:], spectrum.users, sets)[1][0])
    # The bound of all together; each also has its own, if no other values can hide there.
    hidden, unexposed = together, together
    if not others:
        hidden = min(together, unseen * float(exposed[2, -1]))
        unexposed = min(together, unseen * float(safe[1, -1]))
    # Both lines of docs/certificate/declared.md: exposed users by their sum, and by who is not.
    least = max(
        exposed[:2, :-1].min(axis=0) @ seen,
        1 - safe[1, :-1] @ seen - unexposed,
    )
    most = min(exposed[2, :-1] @ seen + hidden, 1 - safe[0, :-1] @ seen)
    return max(float(least) * (1 - 1e-9) - 1e-12, 0.0), min(float(most) * (1 + 1e-9) + 1e-12, 1.0)


def _log_sets(support: int, size: int) -> float:
    """`ln` of the sets of so many of the values, times the sizes that there are."""
    # `gammaln` of 10^18 values is rounded to thousands: a difference of two paid for no set at all.
    return -float(scipy.special.betaln(float(size) + 1, float(support - size) + 1))
