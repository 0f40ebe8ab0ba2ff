"""Draws by known shares of strata, from users of whom some strata have too many.

Strata are drawn one after the other by their shares, and each takes one of its users who were not
taken before, until one has none left. If the users of each stratum are independent draws from that
stratum of the population, those taken are the first of a sequence of independent draws from the
population. What holds at every number of users holds where it ends: docs/certificate.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def draw_by_shares(
    strata: NDArray[np.intp], shares: NDArray[np.float64], generator: np.random.Generator
) -> tuple[NDArray[np.intp], int]:
    """Draw users by the shares of their strata, nobody twice.

    Parameters
    ----------
    strata
        Shape (m,): stratum of each user.
    shares
        Shape (S,), with sum 1: share of each stratum of the population.
    generator
        Must know nothing of the users' values.

    Returns
    -------
    Positions of the users who were drawn, increasing, and the stratum that had none left.
    """
    sizes = np.bincount(strata, minlength=shares.size)
    order = generator.permutation(strata.size)  # the same, whatever the strata are
    drawn = generator.choice(shares.size, size=strata.size + 1, p=shares)
    # of each stratum the draw that it has no user for; one has such a draw
    failing = [np.flatnonzero(drawn == s)[size : size + 1] for s, size in enumerate(sizes)]
    end, binding = min((int(at[0]), s) for s, at in enumerate(failing) if at.size)
    wanted = np.bincount(drawn[:end], minlength=shares.size)
    taken = [order[strata[order] == s][:number] for s, number in enumerate(wanted)]
    return np.sort(np.concatenate(taken)), binding
