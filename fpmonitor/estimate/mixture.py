"""Several designs as one test: their e-values are added up, with weights that were fixed before.

A design is a score with its bound, made for one kind of law. Put

    M = sum_i w_i exp(s S_i - W_i(Q)),

with `S_i` the score of design i, averaged over thinnings, and `sum_i w_i <= 1`. Each term is an
e-value against the exposures on the wrong side of Q at every look, so `M` is one: it is at least
`1 / level` with probability `level` at most. Proof: docs/certificate/menu.md. It is never worse
than its best design by more than `ln(1 / w_i)`. Where no score has weights that increase or are
negative, `M` of a set is one-sided in the set, as each score is.

The designs are made for references: laws that a score can tell apart, by how much mass is exposed,
and by how the mass begins above the threshold. They were chosen once, by hundreds of real and made
laws; validity does not depend on that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import scipy

from fpmonitor.estimate.averaging import averaged, design_base, one_thinning, proved_base
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.poisson import sees_far
from fpmonitor.estimate.programme import growing_weights

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from fpmonitor.estimate.averaging import AveragedScore, Base, Fakes
    from fpmonitor.estimate.exposure import Sign
    from fpmonitor.estimate.margins import Cells

_FIRST = 0.2  # of the weights, for the design of the level that is asked for
_ROUNDING = 1e-9  # relative
_LARGEST_GAP = 0.7  # of the users, where the mass above a gap begins at most
_NEAR, _NEARER = 0.25, 0.9  # times k/n: where a reference has its exposed mass
_CUT = 1 / 3000  # times k/n: the rarest values of a reference
_ONE_TILT = 1.08  # nearly alike
_POWER_POINTS = 60


class Reference(NamedTuple):
    """A law that a design is made for.

    `exposed` is its exposure by the budget. Its mass begins `gap` units of resolution above the
    threshold, and the exposed mass is just below; or it has the density `p^power` in `ln p` through
    the threshold, from `cut` times k/n on.
    """

    exposed: float
    gap: float | None = None
    power: float = 0.0
    cut: float = _CUT


_FAR = 6  # where k of n are many users: the others tell little there, and take long
_ALLOWING: tuple[Reference, ...] = (
    *(Reference(0.75, gap=1.5), Reference(0.75, gap=3.0), Reference(0.15, gap=3.0)),
    *(Reference(0.15, power=0.7), Reference(0.8, power=0.4), Reference(0.8, power=0.0)),
    *(Reference(0.15, gap=6.0), Reference(0.15, gap=25.0), Reference(0.15, power=0.4)),
    *(Reference(0.35, power=0.4), Reference(0.6, power=1.0)),
    *(Reference(0.35, power=1.0, cut=0.45), Reference(0.65, power=0.0, cut=0.45)),
)
_BLOCKING: tuple[Reference, ...] = (
    *(Reference(1.2, power=0.0), Reference(1.7, power=0.0), Reference(1.2, power=0.4)),
    *(Reference(1.7, power=0.4), Reference(1.2, power=-0.3), Reference(10.0, power=1.0)),
    *(Reference(3.0, gap=1.5), Reference(3.0, gap=6.0), Reference(4.0, power=0.0, cut=0.45)),
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Menu:
    """Designs of one side and mean, fixed before the first user.

    Attributes:
        bases: Scores with their bounds.
        shares: float64, shape (I,): weights of the designs, adding up to 1 at most.
    """

    bases: tuple[Base, ...]
    shares: NDArray[np.float64]

    @classmethod
    def alike(cls, bases: Iterable[Base]) -> Self:
        """Return designs that have all the same weight."""
        parts = tuple(bases)
        return cls(bases=parts, shares=np.full(len(parts), (1 - _ROUNDING) / len(parts)))

    def averaged(self, *, users: int, fakes: Fakes | None = None) -> Mixture:
        """Return the test for a number of users; arguments as of `averaging.averaged`."""
        return _at(self, users, fakes)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Mixture:
    """The designs of a menu at one number of users.

    Attributes:
        scores: The scores.
        weights: float64, shape (I, C): weights of one user by the count of its value, by score; the
            last ones hold for all larger counts.
        scales: float64, shape (I,): what a unit of each score adds to the logarithm of its e-value,
            nats.
    """

    scores: tuple[AveragedScore, ...]
    shares: NDArray[np.float64]
    weights: NDArray[np.float64]
    scales: NDArray[np.float64]

    @classmethod
    def of(cls, scores: tuple[AveragedScore, ...], shares: NDArray[np.float64]) -> Mixture:
        """Put scores beside each other, but for those without a table for so many users."""
        # A term left out makes the sum of e-values smaller, never wrong.
        known = [not math.isinf(score.charge) for score in scores]
        if any(known):
            scores = tuple(score for score, is_known in zip(scores, known, strict=True) if is_known)
            shares = shares[known]
        longest = max(score.weights.size for score in scores)
        weights = np.zeros((len(scores), longest))
        for row, score in zip(weights, scores, strict=True):
            # Each ends with 0, which goes on for the larger counts of the longest.
            row[: score.weights.size] = score.weights
        scales = np.array([score.base.sign * score.scale for score in scores])
        return cls(scores=scores, shares=shares, weights=weights, scales=scales)

    @property
    def sign(self) -> Sign:
        """-1: evidence for exposures below. +1: above."""
        return self.scores[0].base.sign

    @property
    def monotone(self) -> bool:
        """Whether the evidence is one-sided in the API set."""
        return all(score.base.monotone for score in self.scores)

    @property
    def is_empty(self) -> bool:
        """Whether no score has a table for so many users: nothing is certified."""
        return all(math.isinf(score.charge) for score in self.scores)

    def criticals(self, log_term: float) -> list[float]:
        """Value of each score at which it alone is evidence enough, nats."""
        terms = zip(self.scores, np.log(self.shares).tolist(), strict=True)
        return [float(score.critical(log_term - share)) for score, share in terms]

    def to_json(self) -> dict[str, object]:
        """Tell all that the theorem needs: numbers without loss."""
        base = self.scores[0].base
        return {
            "sign": self.sign,
            "monotone": self.monotone,
            "k": base.k,
            "population": base.population,
            "budget": base.budget,
            "users": self.scores[0].users,
            "designs": [
                {**score.to_json(), "share": share}
                for score, share in zip(self.scores, self.shares.tolist(), strict=True)
            ],
        }

    def offsets(self) -> NDArray[np.float64]:
        """Return what each design adds to its score, against the budget, nats; (I,)."""
        prices = np.array([float(score.prices()) for score in self.scores])
        return _rounded_down(np.log(self.shares) - prices)


@lru_cache(maxsize=4)  # whoever asks set after set; each may take 50 MB
def _at(menu: Menu, users: int, fakes: Fakes | None) -> Mixture:
    scores = tuple(averaged(base, users=users, fakes=fakes) for base in menu.bases)
    return Mixture.of(scores, menu.shares)


def log_evidence(
    sums: NDArray[np.float64], scales: NDArray[np.float64], offsets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`ln M`, or a little less, nats.

    Args:
        sums: float64, shape (..., I): values of the scores.
        scales, offsets: float64, shape (I,), as of `Mixture`.
    """
    nats = _rounded_down(sums * scales)
    nats += offsets
    most = nats.max(axis=-1, keepdims=True)
    if not np.isfinite(most).all():
        return np.asarray(scipy.special.logsumexp(nats, axis=-1))
    nats -= most
    found: NDArray[np.float64] = np.log(np.exp(nats).sum(axis=-1)) + most[..., 0]
    return found


def _rounded_down(nats: NDArray[np.float64]) -> NDArray[np.float64]:
    return nats - _ROUNDING * np.abs(nats)


def design_menu(
    cells: Cells,
    *,
    sign: Sign,
    budget: float,
    log_term: float,
    share: float,
    monotone: bool,
    fakes: float = 0.0,
    others: tuple[Base, ...] | None = None,
) -> Menu:
    """Design all that decides one budget; it depends on no data.

    Parameters as of `design_base`; `others` as `design_others` makes them, or none of them.
    """
    first = design_base(
        _cells_of_side(cells, sign, budget),
        sign=sign,
        budget=budget,
        log_term=log_term,
        share=share,
        monotone=monotone,
        fakes=fakes,
    )
    if others is None:
        others = design_others(
            cells, sign=sign, budget=budget, share=share, monotone=monotone, fakes=fakes
        )
    if not others:
        return Menu.alike([first])
    rest = (1 - _FIRST) / len(others)
    shares = np.array([_FIRST, *[rest] * len(others)]) * (1 - _ROUNDING)
    return Menu(bases=(first, *others), shares=shares)


def design_others(
    cells: Cells, *, sign: Sign, budget: float, share: float, monotone: bool, fakes: float = 0.0
) -> tuple[Base, ...]:
    """Design what stands beside the first of a menu, whatever its level; parameters as there."""
    cells = _cells_of_side(cells, sign, budget)
    references = _ALLOWING if sign < 0 else _BLOCKING
    if sees_far(cells.laws.mean, cells.laws.function):
        references = references[:_FAR]
    return tuple(
        _designed(
            cells,
            reference_shares(cells, budget, reference),
            sign=sign,
            budget=budget,
            share=share,
            monotone=monotone,
            fakes=fakes * cells.laws.mean,
        )
        for reference in references
    )


def _cells_of_side(cells: Cells, sign: Sign, budget: float) -> Cells:
    """Cells that a side's designs are made for: capped ones for limits from above alone."""
    return cells.capped(budget) if sign < 0 else cells  # docs/certificate/menu.md


def _designed(
    cells: Cells,
    shares: NDArray[np.float64],
    *,
    sign: Sign,
    budget: float,
    share: float,
    monotone: bool,
    fakes: float,
) -> Base:
    """Make the design of one reference law."""
    weights = growing_weights(
        cells.laws, shares, sign=sign, budget=budget, monotone=monotone, fakes=fakes
    )
    tilt = 1 / max(share, 1 - share)
    plain = proved_base(cells, weights, sign=sign, budget=budget, monotone=monotone)
    if tilt < _ONE_TILT:
        return plain
    # Averaging over thinnings leaves a share of the variance: mostly a larger tilt is better then.
    tilted = proved_base(cells, weights * tilt, sign=sign, budget=budget, monotone=monotone)
    users = round(cells.laws.mean / share)
    # Chosen by the reference, not by users: both are fixed before the first.
    return max((plain, tilted), key=lambda base: _power(base, cells, shares, users))


def _power(base: Base, cells: Cells, shares: NDArray[np.float64], users: int) -> float:
    """Mean logarithm of an e-value under a law, at a number of users, nats, about."""
    score = averaged(base, users=users, thinnings=one_thinning(base.mean, users, users))
    parts = np.array_split(np.flatnonzero(shares > _ROUNDING), _POWER_POINTS)
    parts = [part for part in parts if part.size]
    mass = np.array([shares[part].sum() for part in parts])
    means = np.array([cells.laws.means[part] @ shares[part] for part in parts]) / mass
    means *= users / base.mean
    weights = score.weights * score.scale
    changes = np.flatnonzero(np.diff(weights)) + 1
    drops = -np.diff(weights)[changes - 1]
    below = scipy.special.pdtr(np.maximum(changes - 2, 0), means[:, np.newaxis])
    by_user = np.where(changes > 1, below, 0.0) @ drops + weights[-1]
    return base.sign * users * float(mass @ by_user) - base.bound


def reference_shares(cells: Cells, budget: float, reference: Reference) -> NDArray[np.float64]:
    """Share of the users with values at each mean of the grid, under a reference law, shape (P,).

    Its exposure is nearly `reference.exposed` times the budget.
    """
    laws = cells.laws
    k, population = laws.function.k, laws.function.population
    p = laws.means[1:] / laws.mean
    log_p, threshold = np.log(p), k / population
    steps = np.gradient(log_p)
    exposed = exposure_probability(p, k=k, population=population)
    aim = reference.exposed * budget
    if reference.gap is not None:
        # s_0 of docs/certificate/menu.md: what a count at the threshold tells of a share.
        resolution = math.sqrt(1 / (laws.mean * threshold) + 1 / k)
        begin = min((1 + reference.gap * resolution) * threshold, _LARGEST_GAP)
        rare = steps * (p >= _NEAR * threshold) * (p <= _NEARER * threshold)
        # A coarse grid may have no point so near below the threshold.
        if not rare.any():
            rare = steps * (p <= threshold)
        above = steps * (p >= begin)
        rare, above = rare / rare.sum(), above / above.sum()
        own = float(exposed @ above)
        part = min(max((aim - own) / (1 - own), 0.0), 1.0) if own < budget else 0.0
        shares = part * rare + (1 - part) * above
    else:
        density = steps * np.exp(reference.power * (log_p - math.log(threshold)))
        density *= p >= reference.cut * threshold
        shares = aim / float(exposed @ density) * density
        shares *= np.cumsum(shares) <= 1  # more is cut at the top
        shares[-1] += max(1 - float(shares.sum()), 0.0)
    return np.append(0.0, shares)
