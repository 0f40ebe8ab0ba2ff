"""Confidence limits of the exposure of API sets, at every look and without a draw.

A score is sharp near the exposure that it was designed for, so several scores stand for exposures
of different size; each has its share of delta, and the narrowest of their limits holds. Theorems
and measurements: docs/certificate.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.estimate.averaging import LIMIT_ROUNDING, averaged, design_base
from fpmonitor.estimate.looks import BASES, base_cells, hidden_exposure, serving_of
from fpmonitor.estimate.poisson import ExposureFunction, sees_far
from fpmonitor.policy import NO_DEPARTURE, check_sample, check_share, check_threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.estimate.averaging import AveragedScore, Base
    from fpmonitor.estimate.exposure import Sign
    from fpmonitor.estimate.looks import Serving
    from fpmonitor.policy import Departure
    from fpmonitor.spectrum import CountSpectrum

DESIGNS = (0.003, 0.03, 0.3)  # exposures that the scores are sharpest for
# Where k of n are many users, a score tells few large groups apart near its own exposure alone: the
# limit of four tiers was 0.086 with three scores and is 0.04 with these.
_FINE_DESIGNS = (0.003, 0.008, 0.02, 0.04, 0.08, 0.3)
_SIGNS: tuple[Sign, Sign] = (-1, 1)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Limits:
    """Confidence limits of the statistical exposure `Q(n, k)`, for one number of observed users.

    Lower and upper limits each have an error probability of their own.

    Attributes
    ----------
    users
        `m`, observed users.
    delta
        Tolerated probability that the upper limit is ever wrong, and that the lower one is.
    universe
        `D`, number of APIs the limits of all of whose sets hold together, whichever are named after
        looking; None for one set that was fixed before the users were seen.
    parts
        Number of equal shares of delta, of which each score has one for a set fixed beforehand.
    weights
        float64, shape (number of scores, C): weights by count of the scores that the limits come
        from; no scores for users too few for any base.
    curves
        For each score the bound that turns it into a limit.
    margins
        What is taken from lower limits and added to upper ones, for users who are not observed.
    value_share
        Share of the values that are looked at; those of the others are not in a spectrum.
    """

    users: int
    delta: float
    universe: int | None
    parts: float
    weights: NDArray[np.float64]
    curves: tuple[Curve, ...]
    margins: tuple[float, float] = (0.0, 0.0)
    value_share: float = 1.0

    def of(self, spectrum: CountSpectrum, size: int = 1, *, hidden: int = 0) -> tuple[float, float]:
        """Lower and upper limit of the exposure of a set of `size` APIs, shares.

        Parameters
        ----------
        spectrum
            Of all observed users; where only some values are looked at, of the users of these.
        size
            Number of APIs in the set.
        hidden
            The limits hold as well where fewer users than this number are in groups smaller than
            it, and not in the largest group, to which they are counted; any number above all users
            stands for nothing known.

        Raises
        ------
        InputError
            The spectrum is not of so many users.
        """
        part = self.value_share < 1 and spectrum.users < self.users and not hidden
        if spectrum.users != self.users and not part:
            raise InputError(
                f"spectrum: has {spectrum.users} users, the limits are for {self.users}"
            )
        log_term = _log_term(self.delta / self.parts, size, self.universe)
        return self.of_part(spectrum, log_term, hidden=hidden)

    def of_part(
        self,
        spectrum: CountSpectrum,
        log_term: float,
        shares: Sequence[float] = (),
        *,
        hidden: int = 0,
    ) -> tuple[float, float]:
        """Lower and upper limit of the exposure within a part of the population, shares.

        Parameters
        ----------
        spectrum
            Of the observed users in the part.
        log_term
            `ln(1 / level)` of each score, nats, where the part is all of the population.
        shares
            Ends of an interval that holds the probability of the part, where it is not all; the
            level is that share of the level above, and the limits hold for the whole interval.
        hidden
            As in `of`.
        """
        if hidden and hidden > spectrum.users:
            return 0.0, 1.0
        points = self._weights_of(spectrum.counts).dot(spectrum.members.astype(float))
        if hidden > 1:
            points += self._worst_change(int(spectrum.counts[-1]), hidden)
        return self.of_scores(points.tolist(), log_term, shares)

    def of_scores(
        self, points: Sequence[float], log_term: float, shares: Sequence[float] = ()
    ) -> tuple[float, float]:
        """Lower and upper limit by the value of each score, shares; parameters as of `of_part`."""
        lower, upper = 0.0, 1.0
        for curve, score in zip(self.curves, points, strict=True):
            sign, scale, price, bounds, exposures, least_share = curve
            nats = scale * score
            nats = nats - LIMIT_ROUNDING * abs(nats) - log_term - price
            if shares:
                nats = min((nats + math.log(share)) / share for share in shares)
            if sign < 0 and nats < 0:
                nats /= least_share
            right = bisect_left(bounds, nats)
            if not right:
                limit = exposures[0]
            elif right == len(bounds):  # no exposure explains so much
                limit = 0.0 if sign < 0 else 1.0
            else:
                low, least = bounds[right - 1], exposures[right - 1]
                part = (nats - low) / (bounds[right] - low)
                limit = least + part * (exposures[right] - least)
            if sign < 0:
                upper = min(upper, limit)
            else:
                lower = max(lower, limit)
        lower, upper = lower - self.margins[0], min(max(upper, 0.0) + self.margins[1], 1.0)
        return max(min(lower, upper), 0.0), upper  # corrected exposures may be a little outside

    def _weights_of(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.weights.take(counts, axis=1, mode="clip")

    def _worst_change(self, largest: int, hidden: int) -> NDArray[np.float64]:
        """Return what moving users out of the largest group changes, at worst for each score.

        Any partition of them into groups has at most the score of the worst weight for all.
        """
        moved = np.arange(hidden)
        small = self._weights_of(np.arange(1, min(hidden, self.weights.shape[1])))
        change = self._weights_of(largest - moved) * (largest - moved)
        change -= change[:, :1].copy()
        above = np.array([curve.sign < 0 for curve in self.curves], dtype=np.bool_)
        worst = np.where(above, small.max(axis=1), small.min(axis=1))
        change += worst[:, np.newaxis] * moved
        extreme: NDArray[np.float64] = np.where(above, change.max(axis=1), change.min(axis=1))
        return extreme


class Curve(NamedTuple):
    """The bound `W` of a score at one number of users, in Python's numbers, which are faster.

    `scale` nats by a unit of the score, `price` to be paid for the thinnings, what is charged and
    fakes; vertices of `W` by the bound, which grows; `least_share` of the users that the score is
    designed for, at least.
    """

    sign: Sign
    scale: float
    price: float
    bounds: list[float]
    exposures: list[float]
    least_share: float = 1.0

    @classmethod
    def of(cls, certified: AveragedScore) -> Self:
        """Take the bound of a score."""
        base, price = certified.base, certified.charge - certified.clock.log_factor
        if certified.fakes is not None:
            price += certified.scale * certified.fakes.most * certified.step
            if base.sign > 0:
                price += (1 - certified.least_share) * max(-float(base.bounds.min()), 0.0)
        return cls(
            sign=base.sign,
            scale=base.sign * certified.scale,
            price=price,
            bounds=base.bounds[:: base.sign].tolist(),
            exposures=base.exposures[:: base.sign].tolist(),
            least_share=certified.least_share,
        )


@lru_cache(maxsize=256)
def exposure_limits(
    *,
    users: int,
    k: int,
    population: int,
    delta: float,
    universe: int | None = None,
    growing: bool = False,
    departure: Departure = NO_DEPARTURE,
    expected: int | None = None,
    value_share: float = 1.0,
) -> Limits:
    """Limits for one API set that was fixed before the users were seen, or for any choice of sets.

    Parameters
    ----------
    users
        `m`, observed users, at least 2.
    k, population
        Anonymity threshold and `n`, users.
    delta, universe
        Tolerated probability of error, in (0, 1), and of which sets: see `Limits`.
    growing
        Whether upper limits must not fall where groups are split; they are less sharp then for
        values that about k of the population's users share.
    departure, expected, value_share
        As of `decision_criteria`.

    Raises
    ------
    PolicyError
        An argument is out of its range; the error names it.

    Notes
    -----
    Together by a union bound: of the level of one set, each set of `s` of `D` APIs has the share
    `1 / (s (s + 1) C(D, s))`, and these add up to less than 1.
    """
    check_sample(users)
    check_threshold(k, population)
    check_share("delta", delta)
    serving, size, fakes = serving_of(users, departure.fakes, expected, value_share)
    function = ExposureFunction(k, population, departure.factors)
    bases = () if serving is None else _bases(serving, function, delta, universe, growing=growing)
    scores = [averaged(base, users=size, fakes=fakes) for base in bases]
    return Limits(
        users=users,
        delta=delta,
        universe=universe,
        parts=_parts(serving, function),
        weights=np.array([certified.weights for certified in scores] or np.zeros((0, 2))),
        curves=tuple(map(Curve.of, scores)),
        margins=(hidden_exposure(departure, k, population, size), departure.unobserved),
        value_share=value_share,
    )


@lru_cache(maxsize=64)
def _bases(
    serving: Serving,
    function: ExposureFunction,
    delta: float,
    universe: int | None,
    *,
    growing: bool,
) -> tuple[Base, ...]:
    """Design the scores of one base; they follow from the question alone."""
    cells, share = base_cells(serving, function, min(DESIGNS))
    return tuple(
        design_base(
            cells,
            sign=sign,
            budget=budget,
            log_term=_log_term(delta / _parts(serving, function), 1, universe),
            share=share,
            # Free weights may lose where the population is smaller than the sample, and their
            # programme where k of n are many users.
            monotone=function.population < cells.laws.mean
            or sees_far(cells.laws.mean, function)
            or (growing and sign < 0),
            fakes=serving.fakes if sign < 0 else 0.0,
        )
        for sign in _SIGNS
        for budget in _designs(serving, function)
    )


def _designs(serving: Serving, function: ExposureFunction) -> tuple[float, ...]:
    return _FINE_DESIGNS if sees_far(serving.mean, function) else DESIGNS


def _parts(serving: Serving | None, function: ExposureFunction) -> float:
    if serving is None:
        return BASES * len(DESIGNS)
    return serving.bases * len(_designs(serving, function))


def _log_term(level: float, size: int, universe: int | None) -> float:
    """`ln(1 / level)` of each score for a set of so many APIs; `level` is that of a fixed set."""
    first = -math.log(level)
    if universe is None or not size:
        return first
    return first + math.log(size * (size + 1) * math.comb(universe, size))
