"""What the reports of finitely many users tell of the tally beyond the distribution.

Given the distribution, the tally of the reports is multinomial; given the tally of the values too,
it is a sum of independent multinomials, one for each value. `I(Y; T | P)` is the difference of
their entropies. Or, as well, that of the tally of the values, before and after the reports. The law
of each sum is the inverse Fourier transform of a product, exact but for the mass beyond a window,
which Bernstein's inequality bounds; only the mean over the distribution and the tally is sampled.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.ldp.fisher import Expectation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.ldp.priors import DirichletPrior

MAX_OUTCOMES = 4
MAX_CELLS = 400_000
_BEYOND = 1e-13  # mass outside the window, in each coordinate
_BUDGET = 6_000_000
_LEAST_DRAWS, _MOST_DRAWS = 32, 2_048
_TINY = 1e-300


def tally_beyond_distribution(
    matrix: NDArray[np.float64], prior: DirichletPrior, users: int, *, rng: np.random.Generator
) -> Expectation | None:
    """`I(Y; T | P)`, nats, for any matrix; None where neither tally is of few enough coordinates.

    Args:
        matrix: Reports of equal likelihood ratios merged, shape (reports, values); need not be
            faithful.
        prior, users: On the same values; `n`, at least 1.
        rng: Draws distributions and tallies.
    """
    of_reports = len(matrix) <= matrix.shape[1]
    outcomes = min(matrix.shape)
    if outcomes > MAX_OUTCOMES:
        return None
    # A bit has a variance of 1/4 at most.
    widest = _window(users, users / 4) ** (outcomes - 1)
    if widest > MAX_CELLS:
        return None
    draws = min(max(_BUDGET // widest, _LEAST_DRAWS), _MOST_DRAWS)
    differences = np.empty(draws)
    for draw, distribution in enumerate(np.maximum(prior.sample(draws, rng), 1e-290)):
        chances = matrix @ distribution
        chances /= chances.sum()
        if of_reports:
            tally = rng.multinomial(users, distribution / distribution.sum())
            before = chances
            after = matrix.T
        else:
            tally = rng.multinomial(users, chances)
            before = distribution / distribution.sum()
            after = matrix * distribution / (matrix @ distribution)[:, None]
        whole = entropy_of_sum(before[None, :], np.array([users]))
        differences[draw] = whole - entropy_of_sum(after[tally > 0], tally[tally > 0])
    error = float(differences.std(ddof=1)) / math.sqrt(draws)
    return Expectation(max(float(differences.mean()), 0.0), error)


def entropy_of_sum(chances: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    """Entropy, nats, of a sum of independent multinomials.

    Args:
        chances: Shape (multinomials, outcomes), each row of sum 1.
        counts: Trials of each, shape (multinomials,).

    Notes:
        The law is folded into a window: its entropy does not depend on where the window starts.
    """
    free = chances[:, :-1]
    variances = counts @ (free * (1 - free))
    sizes = [_window(int(counts.sum()), float(variance)) for variance in variances]
    waves = chances[:, -1].reshape(-1, *([1] * len(sizes))).astype(np.complex128)
    for axis, size in enumerate(sizes):
        turns = np.exp(-2j * np.pi * np.arange(size) / size)
        shape = [1] * len(sizes)
        shape[axis] = size
        waves = waves + free[:, axis].reshape(-1, *([1] * len(sizes))) * turns.reshape(shape)
    # A wave of 0 stays 0 in any power; one of no trials is not among the rows.
    logs = np.log(np.where(np.abs(waves) < _TINY, _TINY, waves))
    law = np.fft.ifftn(np.exp(np.tensordot(counts.astype(np.float64), logs, axes=1))).real
    law = np.maximum(law, 0.0)
    return float(-scipy.special.xlogy(law, law).sum())


def _window(trials: int, variance: float) -> int:
    """Size that holds all values of a sum of bits, but for `_BEYOND` of the mass.

    Bernstein: `P(|S - E S| > t) <= 2 exp(-t^2 / (2 v + 2 t / 3))`.
    """
    needed = math.log(2 / _BEYOND)
    reach = needed / 3 + math.sqrt(needed**2 / 9 + 2 * variance * needed)
    return min(trials + 1, 2 * math.ceil(reach) + 1)
