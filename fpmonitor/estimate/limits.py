"""Confidence limits of the exposure of API sets, at every look and without a draw.

The exposures that a sum of e-values rules out are an interval, as each of its bounds is one-sided:
its end is the limit. A design is sharp near the exposure that it was made for, so designs for
several exposures are in one sum. Theorems and measurements: docs/certificate.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.estimate.averaging import LIMIT_ROUNDING, design_base
from fpmonitor.estimate.linking import function_of
from fpmonitor.estimate.looks import BASES, PLAIN_DRAWING, Drawing, base_cells, hidden_exposure
from fpmonitor.estimate.mixture import Menu
from fpmonitor.estimate.poisson import ExposureFunction, sees_far
from fpmonitor.policy import check_sample, check_share, check_threshold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from fpmonitor.estimate.averaging import AveragedScore
    from fpmonitor.estimate.exposure import Sign
    from fpmonitor.estimate.looks import Serving
    from fpmonitor.estimate.mixture import Mixture
    from fpmonitor.spectrum import CountSpectrum, DisclosedSpectra

DESIGNS = (0.003, 0.03, 0.3)  # exposures that the designs are sharpest for
# Where k of n are many users, a score tells few large groups apart near its own exposure alone.
_FAR_DESIGNS = (0.003, 0.008, 0.02, 0.04, 0.08, 0.3)
# `GRID` is a whole number of strides, so that the coarse rows end with its last point.
_STRIDE = 24
GRID = np.append(0.0, np.geomspace(1e-7, 1, 25 * _STRIDE))  # of exposures
_PARTS = np.arange(1, 64)[:, np.newaxis] / 64  # of a step of the grid
_SIGNS: tuple[Sign, Sign] = (-1, 1)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Limits:
    """Confidence limits of `Q(n, k)`, or of the share linked, for one number of observed users.

    Lower and upper limits each have an error probability of their own.

    Attributes:
        delta: Tolerated probability that the upper limit is ever wrong, and that the lower one is.
        universe: `D`, number of APIs the limits of all of whose sets hold together, whichever are
            named after looking; None for one set that was fixed before the users were seen.
        bases: Number of equal shares of delta, of which these tests have one.
        sides: The tests of upper and of lower limits; none for users too few for any base.
        margins: What is taken from lower limits and added to upper ones, for users who are not
            observed.
        value_share: Share of the values that are looked at; those of the others are not in a
            spectrum.
    """

    users: int
    delta: float
    universe: int | None
    bases: float
    sides: tuple[Side, ...]
    margins: tuple[float, float] = (0.0, 0.0)
    value_share: float = 1.0
    first: int | None = None

    def of(self, spectrum: CountSpectrum, size: int = 1, *, hidden: int = 0) -> tuple[float, float]:
        """Lower and upper limit of the exposure of a set of `size` APIs, shares.

        Args:
            spectrum: Of all observed users; where only some values are looked at, of the users of
                these.
            size: Number of APIs in the set.
            hidden: The limits hold as well where fewer users than this number are in groups smaller
                than it, and not in the largest group, to which they are counted; any number above
                all users stands for nothing known.

        Raises:
            InputError: The spectrum is not of so many users.
        """
        # A spectrum of few values holds their users alone; the limits are of all users.
        part = self.value_share < 1 and spectrum.users < self.users and not hidden
        if spectrum.users != self.users and not part:
            raise InputError(
                f"spectrum: has {spectrum.users} users, the limits are for {self.users}"
            )
        return self.of_part(spectrum, self.log_term(size), hidden=hidden)

    def of_mean(
        self, told: Sequence[DisclosedSpectra], draws: int, size: int = 1, part: float = 1.0
    ) -> tuple[float, float]:
        """Lower and upper limit, from the mean of the scores of draws of one value of each user.

        Each draw takes a value of each user by a word that follows from no value. The mean of their
        `R_m` is a nonnegative supermartingale as each is, and the mean of the logarithms is below
        its logarithm (docs/certificate/visits.md).

        Args:
            told: What is told of all draws together, or of each by itself.
            draws, size: Number of draws, and of APIs in the set.
            part: Of delta, that the limits have.

        Raises:
            InputError: The spectra are not of so many users in each draw.
        """
        if sum(one.least.users for one in told) != draws * self.users:
            raise InputError(f"spectrum: must be of {self.users} users in each draw")
        if any(one.hidden > one.least.users for one in told):  # of which nothing is known
            return 0.0, 1.0

        def sums(side: Side) -> NDArray[np.float64]:
            found = [side.sums(one.least, one.hidden) / draws for one in told]
            return np.asarray(np.sum(found, axis=0))

        # Sums are linear in the score, so their mean over draws is the score of the mean.
        return self._of_sums(sums, self.log_term(size, part))

    def log_term(self, size: int, part: float = 1.0) -> float:
        """`ln(1 / level)` of a set of so many APIs, of a part of delta, nats."""
        return _log_term(self.delta * part / self.bases, size, self.universe, self.first)

    def of_part(
        self,
        spectrum: CountSpectrum | None,
        log_term: float,
        shares: Sequence[float] = (),
        *,
        hidden: int = 0,
    ) -> tuple[float, float]:
        """Lower and upper limit of the exposure within a part of the population, shares.

        Args:
            spectrum: Of the observed users in the part; None where there are none.
            log_term: `ln(1 / level)`, nats, where the part is all of the population.
            shares: Ends of an interval that holds the probability of the part, where it is not all;
                the level is that share of the level above, and the limits hold for the whole
                interval.
        """
        if spectrum is not None and hidden and hidden > spectrum.users:
            return 0.0, 1.0

        def sums(side: Side) -> NDArray[np.float64]:
            return np.zeros(len(side.scales)) if spectrum is None else side.sums(spectrum, hidden)

        return self._of_sums(sums, log_term, shares)

    def _of_sums(
        self,
        sums_of: Callable[[Side], NDArray[np.float64]],
        log_term: float,
        shares: Sequence[float] = (),
    ) -> tuple[float, float]:
        lower, upper = 0.0, 1.0
        for side in self.sides:
            limit = side.limit(sums_of(side), log_term, shares)
            if side.sign < 0:
                upper = limit
            else:
                lower = limit
        # Of users who are not observed all may be exposed, or be whom others hide among.
        lower, upper = lower - self.margins[0], min(max(upper, 0.0) + self.margins[1], 1.0)
        # Each side errs by itself, so that on bad luck the two may cross.
        return max(min(lower, upper), 0.0), upper


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Side:
    """The tests of all exposures from one side, at one number of users: a sum over designs.

    Attributes:
        sign: -1: of upper limits. +1: of lower ones.
        fixed: float64, shape (I,): logarithm of the weight of each design less what does not follow
            from the exposure, nats.
        curves: float64, shape (G, I): of each design the bound `W` at the exposures of `GRID`, from
            those that are ruled out last; raised so far that what is between them is below the
            chords, and falling.
    """

    sign: Sign
    weights: NDArray[np.float64]
    scales: NDArray[np.float64]
    fixed: NDArray[np.float64]
    curves: NDArray[np.float64]

    @classmethod
    def of(cls, mixture: Mixture) -> Self:
        """Tabulate the bounds of a mixture."""
        scores, sign = mixture.scores, mixture.sign
        fixed = [score.fixed_price(float(score.base.bounds.min())) for score in scores]
        return cls(
            sign=sign,
            weights=mixture.weights,
            scales=mixture.scales,
            fixed=np.log(mixture.shares) - np.array(fixed),
            curves=falling(np.array([_above_between(score) for score in scores]), sign),
        )

    def sums(self, spectrum: CountSpectrum, hidden: int = 0) -> NDArray[np.float64]:
        """Return the scores of a spectrum, shape (I,), or the worst that they may be."""
        sums = self._weights_of(spectrum.counts).dot(spectrum.members.astype(float))
        if hidden > 1:
            sums += self._worst_change(int(spectrum.counts[-1]), hidden)
        return np.asarray(sums)

    def limit(
        self, sums: NDArray[np.float64], log_term: float, shares: Sequence[float] = ()
    ) -> float:
        """Return where the exposures end that are not ruled out, a share; as of `of_part`."""
        nats = sums * self.scales
        # Less evidence than there is rules out less.
        nats = nats - LIMIT_ROUNDING * (np.abs(nats) + abs(log_term)) + self.fixed - log_term

        def allowed(curves: NDArray[np.float64]) -> int:
            """Count the first rows of bounds that are not ruled out; they fall row by row."""
            if shares:
                # P exp(-P W) first rises and then falls with P: each is least at an end.
                left = np.min([nats + math.log(end) - end * curves for end in shares], axis=0)
            else:
                left = nats - curves
            # Above 0 it is ruled out anyway, and `exp` would overflow.
            return int((np.exp(np.minimum(left, 1.0)).sum(axis=1) < 1).sum())

        grid = GRID[:: -self.sign]
        coarse = allowed(self.curves[::_STRIDE])
        low = (coarse - 1) * _STRIDE
        if low < 0 or low == grid.size - 1:  # all exposures are ruled out, or none
            return float(grid[0] if low < 0 else grid[-1])
        low += allowed(self.curves[low + 1 : low + _STRIDE])
        first, last = self.curves[low : low + 2]
        # Chords are above the curve (`_above_between`); of the parts the first that is ruled out.
        part = (allowed(first + _PARTS * (last - first)) + 1) / (_PARTS.size + 1)
        return float(grid[low] + part * (grid[low + 1] - grid[low]))

    def _weights_of(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.weights.take(counts, axis=1, mode="clip")

    def _worst_change(self, largest: int, hidden: int) -> NDArray[np.float64]:
        """Return what moving users out of the largest group changes, at worst for each score.

        Any partition of them into groups has at most the score of the worst weight for all.
        """
        moved = np.arange(hidden)
        small = self._weights_of(np.arange(1, min(hidden, self.weights.shape[1])))
        change = self._weights_of(largest - moved) * (largest - moved)
        # A copy: the first column is overwritten while it is subtracted.
        change -= change[:, :1].copy()
        worst = small.max(axis=1) if self.sign < 0 else small.min(axis=1)
        change += worst[:, np.newaxis] * moved
        extreme: NDArray[np.float64] = change.max(axis=1) if self.sign < 0 else change.min(axis=1)
        return extreme


def falling(curves: NDArray[np.float64], sign: Sign) -> NDArray[np.float64]:
    """Make `curves` of a `Side` of bounds at `GRID`, shape (I, G)."""
    # Raised, not sorted: a bound may only grow, or less would be ruled out than is proved.
    raised = np.maximum.accumulate(curves[:, ::sign], axis=1)[:, ::-1]
    return np.ascontiguousarray(raised.T)


def _above_between(score: AveragedScore) -> NDArray[np.float64]:
    """Bound of a score at `GRID`, raised by what it is above its chords beside each point."""
    base = score.base
    # The bound is concave and bends at these alone, so only there is it highest above a chord.
    corners = base.exposures[(base.exposures > 0) & (base.exposures < 1)]
    if base.capped:
        corners = np.append(corners[corners < base.budget], base.budget)
    return above_chords(score.curve, corners)


def above_chords(
    curve_at: Callable[[NDArray[np.float64]], NDArray[np.float64]], corners: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return a curve at `GRID`, raised by what it is at its corners above chords beside them."""
    curve, at = curve_at(GRID), curve_at(corners)
    above = np.maximum(at - np.interp(corners, GRID, curve), 0.0)
    cells = np.zeros(GRID.size + 1)
    # Several corners may lie in one step, of which plain indexing would keep the last.
    np.maximum.at(cells, np.searchsorted(GRID, corners), above)
    raised: NDArray[np.float64] = curve + np.maximum(cells[:-1], cells[1:])
    return raised


@lru_cache(maxsize=256)
def exposure_limits(
    *,
    users: int,
    k: int | None,
    population: int,
    delta: float,
    universe: int | None = None,
    growing: bool = False,
    drawing: Drawing = PLAIN_DRAWING,
) -> Limits:
    """Limits for one API set that was fixed before the users were seen, or for any choice of sets.

    Args:
        users: `m`, observed users, at least 2.
        k, population: Anonymity threshold and `n`, users. Without a threshold the limits are of the
            share of users whose visits can be linked at all: see `linking`.
        delta, universe: Tolerated probability of error, in (0, 1), and of which sets: see `Limits`.
        growing: Whether upper limits must not fall where groups are split; they are less sharp then
            for values that about k of the population's users share.
        drawing: How the users were drawn, and at which looks the limits hold.

    Notes:
        Together by a union bound: of the level of one set, each set of `s` of `D` APIs has the
        share `1 / (s (s + 1) C(D, s))`, and these add up to less than 1.
    """
    check_sample(users)
    check_threshold(2 if k is None else k, population)
    check_share("delta", delta)
    serving, size, fakes = drawing.serving(users)
    function = function_of(k, population, drawing.departure.factors)
    menus = () if serving is None else _menus(serving, function, delta, universe, growing=growing)
    return Limits(
        users=users,
        delta=delta,
        universe=universe,
        bases=BASES if serving is None else serving.bases,
        sides=tuple(Side.of(menu.averaged(users=size, fakes=fakes)) for menu in menus),
        margins=(
            hidden_exposure(drawing.departure, function, size),
            drawing.departure.unobserved,
        ),
        value_share=drawing.value_share,
        first=drawing.first,
    )


@lru_cache(maxsize=64)
def _menus(
    serving: Serving,
    function: ExposureFunction,
    delta: float,
    universe: int | None,
    *,
    growing: bool,
) -> tuple[Menu, ...]:
    """Design the tests of both sides; they follow from the question alone."""
    # One table for all designs: that of the smallest exposure, whose counts reach farthest.
    plain, share = base_cells(serving, function, min(DESIGNS))
    far = sees_far(plain.laws.mean, function)
    designs = _FAR_DESIGNS if far else DESIGNS
    return tuple(
        Menu.alike(
            design_base(
                cells,
                sign=sign,
                budget=budget,
                # A smaller delta has other weights, and its limits may even be closer: 4.827 and
                # 4.821 % linked at delta / 2 and delta / 3, in the example of docs/people.md. By
                # one and the same weights it is 4.827 and 4.852, or 4.799 and 4.821.
                log_term=_log_term(delta / (serving.bases * len(designs)), 1, universe),
                share=share,
                # Free weights make upper limits 1.07 in place of 1.30 times an exposure of 30 % by
                # values of k/n. They may lose where the population is smaller than the sample, and
                # their programme where k of n are many users.
                monotone=function.population < plain.laws.mean or far or (growing and sign < 0),
                fakes=serving.fakes if sign < 0 else 0.0,
            )
            for budget in designs
            # A capped design says nothing of exposures above its own.
            for cells in dict.fromkeys((plain, plain.capped(budget)) if sign < 0 else (plain,))
        )
        for sign in _SIGNS
    )


def _log_term(level: float, size: int, universe: int | None, first: int | None = None) -> float:
    """`ln(1 / level)` for a set of so many APIs; `level` is that of a fixed set."""
    # 1 / (s (s + 1) C(D, s)) of docs/certificate/limits.md, as logarithms.
    alone = -math.log(level)
    if universe is None or not size:
        return alone
    alone += math.log(size * (size + 1))
    if first is None:
        return alone + math.log(math.comb(universe, size))
    # By logarithms: of 10,000 names, 1 / C(D, 140) is 0 as a float.
    sets = [math.log(each) for each in (math.comb(universe, size), math.comb(first, size)) if each]
    return alone + math.log(2) - float(np.logaddexp.reduce(-np.array(sets)))
