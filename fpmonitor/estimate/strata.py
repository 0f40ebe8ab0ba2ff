"""Draws by known shares of strata, from users of whom some strata have too many.

Strata are drawn one after the other by their shares, and each takes one of its users who were not
taken before, until one has none left. If the users of each stratum are independent draws from that
stratum of the population, those taken are the first of a sequence of independent draws from the
population. What holds at every number of users holds where it ends: docs/certificate.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_SPREAD = 1.5  # standard deviations of the number of users until a stratum has none left
_ROUGHLY = 1.005


def expected_users(sizes: NDArray[np.intp], shares: NDArray[np.float64]) -> int:
    """Return a number of users that can nearly surely be drawn from strata of these sizes.

    It follows from the sizes only roughly, so that it tells next to nothing of them; and from no
    values.

    Args:
        sizes: Shape (S,), users.
        shares: Shape (S,), with sum 1: share of each stratum of the population.
    """
    drawn = shares > 0
    spread = _SPREAD * np.sqrt(sizes[drawn] * (1 - shares[drawn]))
    likely = (sizes[drawn] - spread) / shares[drawn]
    least = max(float(likely.min()), 1.0)
    return math.floor(_ROUGHLY ** math.floor(math.log(least) / math.log(_ROUGHLY)))


def draw_by_shares(
    strata: NDArray[np.intp], shares: NDArray[np.float64], generator: np.random.Generator
) -> tuple[NDArray[np.intp], int]:
    """Draw users by the shares of their strata, nobody twice.

    Args:
        strata: Shape (m,): stratum of each user.
        shares: Shape (S,), with sum 1: share of each stratum of the population.
        generator: Must know nothing of the users' values.

    Returns:
        Positions of the users who were drawn, increasing, and the stratum that had none left.
    """
    sizes = np.bincount(strata, minlength=shares.size)
    # Before the draws of strata, so that other shares do not shuffle the users anew.
    order = generator.permutation(strata.size)  # the same, whatever the strata are
    # One more than there are users: one stratum at least must run out.
    drawn = generator.choice(shares.size, size=strata.size + 1, p=shares)
    # of each stratum the draw that it has no user for; one has such a draw
    failing = [np.flatnonzero(drawn == s)[size : size + 1] for s, size in enumerate(sizes)]
    end, binding = min((int(at[0]), s) for s, at in enumerate(failing) if at.size)
    wanted = np.bincount(drawn[:end], minlength=shares.size)
    shuffled = strata[order]
    taken = [order[shuffled == s][:number] for s, number in enumerate(wanted)]
    return np.sort(np.concatenate(taken)), binding
