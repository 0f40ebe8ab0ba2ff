"""How many users anybody would need to decide a set, whatever the test.

The best mean logarithm `V` of an e-value under a law is the cheapest way to explain its counts by
a law on the border of the budget, and no test of level delta passes in half of the samples unless
`V >= z^2 / 2`, with `z` the normal quantile: docs/certificate/ceiling.md. The law is the one that
fits the users, so this is a forecast; it promises nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.estimate.averaging import proved_base
from fpmonitor.estimate.looks import SHARPEST, base_cells, serving_of
from fpmonitor.estimate.poisson import ExposureFunction
from fpmonitor.estimate.programme import growing_weights
from fpmonitor.estimate.sample_size import MOST_USERS, fit_law

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from fpmonitor.estimate.exposure import Sign
    from fpmonitor.estimate.margins import Cells
    from fpmonitor.spectrum import CountSpectrum

_DIGITS = 2  # of a number of users
_LEAST_QUANTILE = 1e-3  # 0 would be divided by 0 where a set has no evidence


def users_possible(
    spectra: Iterable[CountSpectrum],
    *,
    users: int,
    k: int,
    population: int,
    budget: float,
    delta: float,
) -> Iterator[int | None]:
    """Yield of each set from how many users on somebody could decide it, by one look at it alone.

    About, as evidence grows in proportion to the users; null for more than are forecast. A set
    takes 0.01 s, where k of n are many observed users 0.2 s.

    Args:
        spectra: Of `users` users each.
    """
    serving = serving_of(users, 0.0, look="first")[0]
    if serving is None:
        return
    cells, _ = base_cells(serving, ExposureFunction(k, population), min(budget, SHARPEST))
    # Of delta, as 1 - delta may round to 1. From a half on a coin decides: next to nothing.
    needed = max(-float(scipy.special.ndtri(delta)), _LEAST_QUANTILE) ** 2 / 2
    for spectrum in spectra:
        law = fit_law(spectrum, population=population)
        nats = _most_nats(cells, _shares_of(cells, law.probabilities, law.shares), budget)
        # No evidence at all would divide by 0; so it ends above MOST_USERS, as null.
        enough = needed * cells.laws.mean / max(nats, needed / MOST_USERS)
        yield None if enough > MOST_USERS else int(float(f"{math.ceil(enough):.{_DIGITS}g}"))


def nats_possible(
    law: NDArray[np.float64], *, users: int, k: int, population: int, budget: float
) -> float:
    """Best mean logarithm of an e-value at the first look at users of a known law, nats.

    Args:
        law: float64, shape (V,): probabilities of the values.
    """
    serving = serving_of(users, 0.0, look="first")[0]
    if serving is None:
        return 0.0
    cells, _ = base_cells(serving, ExposureFunction(k, population), min(budget, SHARPEST))
    nats = _most_nats(cells, _shares_of(cells, law, law), budget)
    return nats * users / cells.laws.mean


def _most_nats(cells: Cells, shares: NDArray[np.float64], budget: float) -> float:
    """Best mean logarithm of an e-value that tells a law from those across the budget, nats."""
    laws = cells.laws
    # What could be decided of this law: to allow below the budget, to block above it.
    sign: Sign = -1 if float(shares @ laws.exposure[-1]) < budget else 1
    # As the tests themselves: no value counts for more than the budget (docs/certificate/menu.md).
    seen = cells.capped(budget) if sign < 0 else cells
    weights = growing_weights(seen.laws, shares, sign=sign, budget=budget, monotone=False)
    base = proved_base(seen, weights, sign=sign, budget=budget, monotone=False)
    score = float((shares @ laws.rates) * laws.atoms @ base.weights[laws.weight_of_atom])
    return max(sign * laws.mean * score - base.bound, 0.0)


def _shares_of(
    cells: Cells, probabilities: NDArray[np.float64], users: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of the users with values at each mean of the grid, shape (P,)."""
    means = cells.laws.means
    at = np.clip(probabilities * cells.laws.mean, means[1], means[-1])
    above = np.clip(np.searchsorted(means, at), 2, means.size - 1)
    part = np.log(at / means[above - 1]) / np.log(means[above] / means[above - 1])
    shares = np.zeros(means.size)
    np.add.at(shares, above, users * part)
    np.add.at(shares, above - 1, users * (1 - part))
    return shares
