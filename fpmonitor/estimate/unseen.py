"""How many of the next users show a value that none of those observed has.

That share, the missing mass, falls with every user observed. Over samples it is `Q(m + 1, 2)` on
average, which the certificate limits, and about its average it is concentrated whatever the
distribution (McAllester and Ortiz 2003, "Concentration inequalities for the missing mass and for
histogram rule error": `exp(-m e^2)` above, `exp(-(exp(1) / 2) m e^2)` below).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from fpmonitor.estimate.limits import exposure_limits

if TYPE_CHECKING:
    from fpmonitor.spectrum import CountSpectrum

_STEP = math.log(1.05)  # between numbers of users at which the concentration is reckoned with
_FASTER_BELOW = math.e / 2


class Unseen(NamedTuple):
    """Share of the next users who show a value not seen yet: Good-Turing, and its limits."""

    estimate: float
    lower: float
    upper: float


def unseen_share(spectrum: CountSpectrum, delta: float) -> Unseen:
    """Share of the next users whose value none of those observed has, at every look.

    Args:
        spectrum: Count spectrum of the observed users, at least 2.
        delta: Tolerated probability that the upper limit is ever wrong, and that the lower one is.

    Notes:
        Concentration holds for one number of users: numbers a twentieth apart, fixed beforehand,
        share half of delta. Between two of them the missing mass lies between those at both.
    """
    users = spectrum.users
    # m_j <= m < m_(j+1) of docs/certificate/next-users.md, clipped as rounding may be off by one.
    before = max(math.floor(math.log(users) / _STEP), 0)
    earlier = max(min(math.ceil(math.exp(before * _STEP)), users), 1)
    later = max(math.ceil(math.exp((before + 1) * _STEP)), users + 1)
    above = _average_limits(spectrum, earlier, delta)[1] + math.sqrt(_nats(before, delta) / earlier)
    below = _average_limits(spectrum, later, delta)[0] - math.sqrt(
        _nats(before + 1, delta) / (_FASTER_BELOW * later)
    )
    # Good-Turing: the share of users whose value nobody else has.
    once = int(spectrum.values[spectrum.counts == 1].sum())
    return Unseen(once / users, max(below, 0.0), min(above, 1.0))


def _average_limits(spectrum: CountSpectrum, users: int, delta: float) -> tuple[float, float]:
    """Limits of the average missing mass after so many users."""
    limits = exposure_limits(users=spectrum.users, k=2, population=users + 1, delta=delta / 2)
    return limits.of(spectrum)


def _nats(place: int, delta: float) -> float:
    return math.log(2 * (place + 1) * (place + 2) / delta)
