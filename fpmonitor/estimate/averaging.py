"""The certificate without a draw: its average over all thinnings, valid at every number of users.

Fix a mean `s` and a score `phi` before the first user. Let `R_m` be the sum over `r <= m` of
`P(Poisson(s) = r)` times the average of `exp(sign phi)` over all subsets of `r` of the `m` users.
Read backwards in `m` it is a nonnegative supermartingale, so that, with probability at least
`1 - level`, `ln R_m < W(Q) + ln(1 / level)` for all `m` at once (Ville's inequality). A mixture of
binomial thinnings bounds `ln R_m` by a sum over values, which is what is computed here. Proofs:
docs/certificate.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from fpmonitor.estimate.kept_weights import weights_of
from fpmonitor.estimate.programme import best_line, envelope, sharpest_weights
from fpmonitor.estimate.saddle_point import deviance, factorial_remainder
from fpmonitor.policy import AS_OBSERVED, Factors

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fpmonitor.estimate.exposure import Sign
    from fpmonitor.estimate.margins import Cells

_REACH = 3.5  # of the clock, in standard deviations of the arrival of a user
_STEP = 1.5  # of the clock, in standard deviations of the thinning
_SMALLEST_SHARE = 0.05  # with fewer users kept, one share alone costs next to nothing
_CLOCK_ROUNDING = 1e-9  # of a logarithm, far above what the sums lose
_TAIL = 30.0  # nats: larger groups have a smaller chance to be thinned below the last free count
_MOST_COUNTS = 500_000  # of a table of weights
_STEP_ROUNDING = 1e-15  # relative, of a moment with each count
_FINEST_UNIT = 2.0**-24  # sums of such weights are exact for 5 * 10^8 users, in any order
_UNIT_NATS = 0.02  # that weights in larger units cost all users together, so that files are short
_DIGITS = 8  # of the weights of a design, whatever they are: the bound is proved for them
_BLOCK = 16  # users kept, at least, of those whose fate is decided together
_LEFT_OUT = 40.0  # nats
_SMALL_TABLE = 1 << 16  # numbers of a table that is kept; larger ones take little of their time
LIMIT_ROUNDING = 1e-9
# `exp` overflows above 709.
_LARGEST_EXPONENT = 600.0
_LINE_ROUNDING = 1e-12
_SMALL = 1e-6  # nats: exponents this small are as good as linear
_SMALL_ROUNDING = 1e-9  # nats, of a score by value from such exponents


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Clock:
    """Binomial thinnings whose mixture, times a factor, is nowhere above the Poisson distribution.

    `factor * sum_i weights[i] P(Bin(m, shares[i]) = r) <= P(Poisson(s) = r)` for every `r <= m`.
    """

    shares: NDArray[np.float64]  # float64, shape (I,), in (0, 1): chance of a user to be kept.
    weights: NDArray[np.float64]  # float64, shape (I,), adding up to 1.
    log_factor: float  # Natural logarithm of the factor, negative.

    def to_json(self) -> dict[str, object]:
        """Tell all of it, without loss."""
        return {
            "shares": self.shares.tolist(),
            "weights": self.weights.tolist(),
            "log_factor": self.log_factor,
        }


@lru_cache(maxsize=64)
def clock(users: int, mean: float) -> Clock:
    """Thinnings of `users` users that stand for Poisson(`mean`) users, `mean < users`.

    When users arrive as a Poisson process, the time of the next arrival has a gamma distribution,
    and the exact mixture over it has no loss at all; a few times stand for all.
    """
    # At the time mean cosh(x)^2 the spread of the thinning is the same number of units of x.
    width = _STEP / (2 * math.sqrt(users))
    reach = _REACH * math.sqrt(users)
    first, last = np.arccosh(np.sqrt(np.maximum([users - reach, users + reach], mean) / mean))
    x = width * np.arange(math.floor(first / width) + 0.5, last / width)
    times = mean * np.cosh(x) ** 2
    log_weights = users * np.log(times / users) - (times - users)
    weights = np.exp(log_weights - log_weights.max()) * np.sinh(2 * x)
    if mean < _SMALLEST_SHARE * users:
        times, weights = np.array([float(users)]), np.ones(1)
    weights /= weights.sum()
    shares = mean / times
    return Clock(
        shares=shares, weights=weights, log_factor=_log_factor(users, mean, shares, weights)
    )


def _log_factor(
    users: int, mean: float, shares: NDArray[np.float64], weights: NDArray[np.float64]
) -> float:
    """Least `ln` of Poisson over mixture.

    The ratio of each binomial to the Poisson probability of `r` grows by the factor
    `(m - r) f / ((1 - f) s)` from `r` to `r + 1`, which falls with `r`: outside the range of the
    peaks all ratios fall, so the mixture's ratio is largest within.
    """
    peaks = np.clip(users - mean * (1 - shares) / shares, 0, users)
    user_counts = np.arange(
        max(math.floor(peaks.min()) - 1, 0), min(math.ceil(peaks.max()) + 1, users) + 1
    )
    largest = -math.inf
    for part in np.array_split(user_counts, max(user_counts.size // 20_000, 1)):
        alone = part[:, np.newaxis] * 1.0
        r, f = (array.copy() for array in np.broadcast_arrays(alone, shares))
        left = users - r
        # `gammaln` of 10^7 users is 1.5e8, whose rounding is above `_CLOCK_ROUNDING`.
        ratio = factorial_remainder(np.array([float(users)])) - factorial_remainder(users - alone)
        ratio = ratio + deviance(alone, np.full_like(alone, mean), alone - mean)  # of each row
        ratio = ratio - deviance(r, users * f, r - users * f)
        ratio -= deviance(left, users * (1 - f), users * f - r)
        totals = scipy.special.logsumexp(ratio, axis=1, b=weights)
        largest = max(largest, float(totals.max()))
    return -largest - _CLOCK_ROUNDING


def one_thinning(mean: float, users: int, fewest: int) -> Clock:
    """Return one thinning, of `users` users to `mean`, for every number of users from `fewest` on.

    The chance to leave any number, times the factor, is nowhere above that of a Poisson number of
    the same mean. There must be 20 users, of whom it keeps nine in ten at most.
    """
    share = mean / users * (1 - _STEP_ROUNDING)
    # The lemma of docs/certificate/fakes.md, with z = fewest (1 - share), which must be 2 or more.
    lost = -math.log1p(-share) / 2 + 0.75 / (fewest * (1 - share))
    return Clock(shares=np.array([share]), weights=np.ones(1), log_factor=-lost - _CLOCK_ROUNDING)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Base:
    """A score and the bound of its moment: fixed before the first user, used at every look.

    `ln E exp(sign phi(C)) <= p W(F(p))` for `C ~ Poisson(mean p)`, `F` the `biased_exposure` and
    all `p` in (0, 1], with
    `phi(c) = weights[j] c` for `starts[j] <= c < starts[j + 1]` and 0 from the last start on.
    """

    sign: Sign  # -1: certifies exposures from above. +1: from below.
    monotone: bool  # Whether the score grows with the API set.
    # k, population, budget: The question.
    k: int
    population: int
    budget: float
    mean: float  # `s`, mean number of users of a thinning.
    starts: NDArray[np.int64]  # int64, shape (W + 1,), from 1.
    weights: NDArray[np.float64]  # float64, shape (W,), nats per user.
    # exposures, bounds: float64: vertices of `W`, nats, on the side where it falls (sign -1) or
    # rises (sign +1).
    exposures: NDArray[np.float64]
    bounds: NDArray[np.float64]
    # slope, intercept: Line `slope F + intercept` above `W` that touches it at the budget, nats.
    slope: float
    intercept: float
    factors: Factors = AS_OBSERVED  # As in `ExposureFunction`.
    value_share: float = 1.0  # As of `PoissonLaws`: `C` is 0 for a value that is not looked at.
    capped: bool = False  # Whether `p F(p)` counts as the budget at most, see `Cells.capped`.

    @property
    def bound(self) -> float:
        """`W` at the budget, nats."""
        return self.slope * self.budget + self.intercept

    def bounds_at(self, exposures: ArrayLike | None) -> NDArray[np.float64]:
        """`W`, nats; by the line at the budget when left out.

        Of exposures above the budget a capped design says what it says of that.
        """
        if exposures is None:
            return np.array(self.bound)
        at = np.asarray(exposures, dtype=np.float64)
        if self.capped:
            at = np.minimum(at, self.budget)
        return np.asarray(np.interp(at, self.exposures, self.bounds))

    def phi(self) -> NDArray[np.float64]:
        """Tilted score of one value by its count 0, 1, ..., up to the last start."""
        by_count = np.repeat(self.weights, np.diff(self.starts))
        phi = np.zeros(int(self.starts[-1]) + 1)
        phi[1:-1] = by_count * np.arange(1, self.starts[-1])
        return phi


def design_base(
    cells: Cells,
    *,
    sign: Sign,
    budget: float,
    log_term: float,
    share: float,
    monotone: bool,
    fakes: float = 0.0,
) -> Base:
    """Design the base that decides exposures nearest to the budget; it depends on no data.

    Args:
        cells: Distributions of the counts of Poisson(`cells.laws.mean`) users.
        sign: -1 for an upper limit, +1 for a lower limit.
        log_term: `ln(1 / level)`, nats, at which it is sharpest.
        share: The mean by the users in the middle of its use, in (0, 1).
        monotone: Whether the score must grow with the API set.
        fakes: Share of the rows that are no users.
    """
    laws = cells.laws
    # Averaging over thinnings leaves this share of the variance. Where it is small, the variance is
    # not what limits the score.
    log_term /= max(share, 1 - share)
    rows = fakes * laws.mean
    search = partial(
        sharpest_weights,
        laws,
        sign=sign,
        budget=budget,
        log_term=log_term,
        monotone=monotone,
        fakes=rows,
    )
    weights = weights_of(search, laws, sign, budget, log_term, rows, monotone=monotone)
    return proved_base(cells, weights, sign=sign, budget=budget, monotone=monotone)


def proved_base(
    cells: Cells, weights: NDArray[np.float64], *, sign: Sign, budget: float, monotone: bool
) -> Base:
    """Prove the bound of weights, whatever they are; parameters as of `design_base`."""
    laws = cells.laws
    largest = np.abs(weights * (laws.starts[1:] - 1)).max(initial=1e-9)
    # Before the proof, so that the bound is for the digits that a decision file holds.
    weights = _short(weights * min(_LARGEST_EXPONENT / largest, 1.0))
    exposure, bounds = cells.exposure[sign], laws.mean * cells.bounds(weights, sign)
    corners = envelope(exposure, bounds, sign)
    slope, intercept = best_line(corners, exposure, bounds, sign, budget)
    return Base(
        sign=sign,
        monotone=monotone,
        k=laws.function.k,
        population=laws.function.population,
        factors=laws.function.factors,
        value_share=laws.value_share,
        budget=budget,
        mean=laws.mean,
        starts=laws.starts,
        weights=weights,
        exposures=corners[0],
        bounds=corners[1],
        slope=slope,
        intercept=intercept + _LINE_ROUNDING * (abs(intercept) + abs(slope)),
        capped=cells.is_capped,
    )


def _short(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([float(f"{number:.{_DIGITS}g}") for number in numbers.tolist()])


class Fakes(NamedTuple):
    """Rows that are no users, of a number of rows that the score of `users` is asked of."""

    rows: int  # `m`, all rows; at most the `users` of the score.
    most: int  # Number of those that are no users, at most.

    @classmethod
    def of(cls, rows: int, share: float) -> Fakes:
        """Return so many rows, of which a share is no users; 0.29 of 100 are 29, not 28."""
        return cls(rows, math.floor(Fraction(repr(share)) * rows))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AveragedScore:
    """A base at one number of users: weights by count, and the scores that certify."""

    base: Base  # Score and bound.
    users: int  # `m`, observed users.
    clock: Clock  # Thinnings.
    # float64: weight of one user by the count of its value, at most 1; the last, 0, holds for all
    # larger counts.
    weights: NDArray[np.float64]
    scale: float  # Nats by a unit of the score.
    unit: float  # What all weights are whole multiples of.
    # What the larger counts may add to the tilted score, and rounding, all together, nats; infinite
    # where the table would be too long, which certifies nothing.
    charge: float
    fakes: Fakes | None = None  # What rows that are no users may do; None where all are.

    def critical(self, log_term: ArrayLike) -> NDArray[np.float64]:
        """Score at which the budget is ruled out, at most (sign -1) or at least (sign +1).

        Args:
            log_term: `ln(1 / level)`, nats, any shape.
        """
        price = float(self.prices())
        critical = self.base.sign * (np.asarray(log_term, dtype=np.float64) + price) / self.scale
        rounded: NDArray[np.float64] = critical + self.base.sign * LIMIT_ROUNDING * np.abs(critical)
        return rounded

    def prices(self, exposures: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return what to take from the tilted score for a logarithm of an e-value, nats.

        Against exposures of any shape; against the budget when left out.
        """
        base = self.base
        least = base.intercept if exposures is None else float(base.bounds.min())
        return self.curve(exposures) + self.fixed_price(least)

    def curve(self, exposures: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the part of `prices` that follows from the exposures: `W`, with fewer users."""
        bound = self.base.bounds_at(exposures)
        if self.base.sign > 0:
            return bound
        return bound + (1 - self.least_share) * np.maximum(-bound, 0.0)

    def fixed_price(self, least: float) -> float:
        """Return the rest of `prices`: thinnings, larger counts, and rows that are no users.

        `least` is the bound of exposure 0 by the line or curve that is used.
        """
        price = self.charge - self.clock.log_factor
        if self.fakes is not None:
            price += self.scale * self.fakes.most * self.step
            if self.base.sign > 0:
                price += (1 - self.least_share) * max(-least, 0.0)
        return price

    @property
    def least_share(self) -> float:
        """Users by those that the score is designed for, at least."""
        return 1.0 if self.fakes is None else (self.fakes.rows - self.fakes.most) / self.users

    @property
    def step(self) -> float:
        """Most that one row more may take from the score (sign -1), or add to it."""
        scores = np.arange(self.weights.size) * self.weights
        return float((self.base.sign * np.diff(scores)).max(initial=0.0))

    def to_json(self) -> dict[str, object]:
        """Tell all that the theorem needs: numbers without loss."""
        base = self.base
        return {
            "sign": base.sign,
            "monotone": base.monotone,
            "k": base.k,
            "population": base.population,
            "budget": base.budget,
            "users": self.users,
            "mean": base.mean,
            "starts": base.starts.tolist(),
            "phi": base.weights.tolist(),
            "slope": base.slope,
            "intercept": base.intercept,
            "clock": self.clock.to_json(),
            "weights": (self.weights / self.unit).astype(np.int64).tolist(),
            "scale": self.scale * self.unit,
            "charge": self.charge,
            **({"capped": True} if base.capped else {}),
            **({} if base.factors == AS_OBSERVED else {"factors": list(base.factors)}),
            **({} if base.value_share == 1 else {"value_share": base.value_share}),
            **({} if self.fakes is None else {"fakes": self.fakes._asdict()}),
        }


def averaged(
    base: Base, *, users: int, fakes: Fakes | None = None, thinnings: Clock | None = None
) -> AveragedScore:
    """Score of a base for a number of users, above its mean.

    For `f` of the thinnings `phi_f(c) = sign ln E exp(sign phi(Bin(c, f)))`; the mean over the
    thinnings is on the safe side of `ln R_m` by Jensen's inequality. Weights that must not increase
    take the least such function above (sign -1), or the greatest one below (sign +1).
    """
    if thinnings is None:
        thinnings = (
            clock(users, base.mean)
            if fakes is None
            else one_thinning(base.mean, users, fakes.rows - fakes.most)
        )
    phi = base.phi()
    counts, known = _tabulated(int(base.starts[-1]), thinnings, users)
    charge: float = users * known * _STEP_ROUNDING
    if known <= min(counts - 1, users):  # counts that are possible, but not in the table
        charge, known = math.inf, 2
    elif counts <= users:
        # At most users / counts groups are larger: docs/certificate/every-look.md, "Large groups".
        charge += users / counts * -math.log1p(-math.exp(-_TAIL))
    table = _mean_over_thinnings(base.sign * phi, thinnings, known)
    by_user = base.sign * table[1:] / np.arange(1, known)
    if base.monotone:
        by_user = np.maximum(by_user, 0)
        if base.sign < 0:
            # Made monotone on the safe side: the least such function above, not one nearby.
            by_user = np.maximum.accumulate(by_user[::-1])[::-1]
        else:
            by_user = np.minimum.accumulate(by_user)
    scale = float(np.abs(by_user).max()) or 1.0
    unit = max(2.0 ** math.floor(math.log2(min(_UNIT_NATS / (users * scale), 1.0))), _FINEST_UNIT)
    units = by_user / scale / unit
    # Up where a large score must not certify, down where it does.
    weights = (np.ceil(units) if base.sign < 0 else np.floor(units)) * unit
    return AveragedScore(
        base=base,
        users=users,
        clock=thinnings,
        # Nobody has count 0; `Score` wants the weight of 1 there, so that weights do not increase.
        weights=np.concatenate([weights[:1], weights, [0.0]]),
        scale=scale,
        unit=unit,
        charge=charge,
        fakes=fakes,
    )


def mean_scores(
    phi: NDArray[np.float64], thinnings: Clock, sign: Sign, users: int
) -> tuple[NDArray[np.float64], float]:
    """Mean of a score over what thinning leaves of a value, by user and by the count of the value.

    Args:
        phi: Score by count 0, 1, ...; 0 from the end on.
        sign: -1: the means are not below the true ones. +1: not above.

    Returns:
        Weights by count, the last, 0, for all larger ones; and what these and rounding may add,
        nats.
    """
    counts, known = _tabulated(len(phi), thinnings, users)
    if known <= min(counts - 1, users):
        return np.zeros(2), math.inf
    largest = float(np.abs(phi).max())
    # The logarithm of a mean of small exponentials is the mean, and by Jensen on the safe side.
    table = _mean_over_thinnings(-sign * _SMALL * phi, thinnings, known) / (-sign * _SMALL)
    charge = users * (_SMALL_ROUNDING + largest * math.exp(-_TAIL))
    return np.concatenate([table[1:2], table[1:] / np.arange(1, known), [0.0]]), charge


def _tabulated(end: int, thinnings: Clock, users: int) -> tuple[int, int]:
    """Return from which count on hardly any is thinned below an end, and how many are tabulated."""
    # Chernoff: from a mean x with (x - end)^2 >= 2 _TAIL x on, `end` or fewer are that rare.
    most = end + _TAIL + math.sqrt(_TAIL**2 + 2 * _TAIL * end)
    counts = math.ceil(most / float(thinnings.shares.min()))
    return counts, min(counts, _MOST_COUNTS, users + 1)


def _mean_over_thinnings(
    exponents: NDArray[np.float64], thinnings: Clock, counts: int
) -> NDArray[np.float64]:
    """`sum_i w_i ln E exp(exponents[Bin(c, f_i)])` for `c` below `counts`; 0 beyond the exponents.

    By the mean over the fate of one block of users more: all terms are positive, so nothing is
    lost. Left out are fates that cannot move a mean by one part in `10^17`.
    """
    moments = np.exp(exponents)
    need = float(np.ptp(np.append(exponents, 0.0))) + _LEFT_OUT
    means = np.zeros(counts)
    for share, weight in zip(thinnings.shares.tolist(), thinnings.weights.tolist(), strict=True):
        block = min(max(math.ceil(_BLOCK / share), math.isqrt(16 * counts)), counts)
        most = _most_kept(block, share, need)
        is_small = (block + 1) * (most + 1) <= _SMALL_TABLE
        chances = (_chances if is_small else _chances.__wrapped__)(block, share, most)
        table = []
        ones = np.ones(most)
        after = np.concatenate((moments, ones))
        for done in range(0, counts, block):
            table.append(chances[:-1] @ after[: most + 1])
            mean = (done + block) * share
            passed = max(int(mean - math.sqrt(2 * mean * need)), 0)  # Chernoff
            left = max(moments.size - passed, 1)
            after = np.convolve(after[: left + most], chances[-1, ::-1], "valid")
            after = np.concatenate((after, ones))
        means += weight * np.log(np.concatenate(table)[:counts])
    return means


@lru_cache(maxsize=32)  # the designs of a menu have the same thinnings, 22 as a rule
def _chances(users: int, share: float, most: int) -> NDArray[np.float64]:
    """Return the chances to keep up to `most` of 0 to `users`, each with the chance `share`."""
    chances = np.zeros((users + 1, most + 1))
    chances[0, 0] = 1.0
    for done in range(users):
        chances[done + 1] = (1 - share) * chances[done]
        chances[done + 1, 1:] += share * chances[done, :-1]
    return chances


def _most_kept(users: int, share: float, nats: float) -> int:
    """Return what `Bin(users, share)` exceeds with probability at most `exp(-nats)` (Chernoff)."""
    mean = users * share
    numbers = np.arange(math.ceil(mean), users + 1)
    far = scipy.special.xlogy(numbers, numbers / mean) - numbers + mean >= nats
    return int(numbers[far.argmax()]) if far.any() else users
