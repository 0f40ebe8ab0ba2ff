"""Exposure: the share of users that share their value with too few others.

Empirical exposure counts the observed users in groups of fewer than `k`. Statistical exposure
`Q(n, k)` is its expectation in a population of `n` users drawn from the distribution of the values.
Its estimators here carry no error bar: `bounds` and `certificate` do.

Source: Bravo-Hermsdorff, Busa-Fekete, Gunderson, Munoz Medina, Syed (2022), "Statistical
anonymity: Quantifying reidentification risks without reidentifying users"; below "Statistical
anonymity".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy

from fpmonitor.errors import InputError
from fpmonitor.estimate.saddle_point import deviance, factorial_remainder, hypergeometric_lower_tail
from fpmonitor.policy import MAX_POPULATION, Factors, check_share, check_threshold

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fpmonitor.spectrum import CountSpectrum

Sign = Literal[-1, 1]  # -1: an upper limit, +1: a lower limit

_PROBABILITY_SUM_TOLERANCE = 1e-6


def exposure_probability(p: ArrayLike, *, k: int, population: int) -> NDArray[np.float64]:
    """Probability that a user whose value has probability `p` is exposed.

    `F(p) = P(Bin(n - 1, p) <= k - 2)`: fewer than `k` of the `n` users share the value, the user
    itself included. Non-increasing in `p`.

    Args:
        p: Probabilities, shares in [0, 1], any shape.
        k: Anonymity threshold, users. Nobody is exposed when `k <= 1`.
        population: `n`, users. Everybody is exposed when `n < k`.

    Returns:
        float64 of the shape of `p`, shares, to about 10 digits; below 1e-290 the answer is 0.

    Raises:
        InputError: A `p` outside [0, 1], or NaN.

    Notes:
        "Statistical anonymity", Definition 7. The printed beta function is undefined at `k = 1` and
        `n < k`, and Appendix G calls it the distribution function of Bin(n, p): it is that of
        Bin(n - 1, p) at `k - 2`.
    """
    shares = np.asarray(p, dtype=np.float64)
    if shares.size and not (shares.min() >= 0 and shares.max() <= 1):
        raise InputError("probabilities must lie in [0, 1]")
    if k <= 1:
        return np.zeros_like(shares)
    if population < k:
        return np.ones_like(shares)
    check_threshold(k, population)
    # Not scipy's bdtr, which is wrong in the first digit for populations above 10^9.
    # P(Bin(n - 1, p) <= k - 2) is the upper tail of a beta variable of this shape at p.
    shape = (k - 1, population - k + 1)
    surely_one, surely_zero = _saturation(*shape)
    exposed = np.where(shares <= surely_one, 1.0, 0.0)
    open_question = (shares > surely_one) & (shares < surely_zero)
    exposed[open_question] = scipy.special.betaincc(*shape, shares[open_question])
    return exposed


def biased_exposure(
    p: ArrayLike, *, k: int, population: int, factors: Factors, sign: Sign
) -> NDArray[np.float64]:
    """Exposed users of the population by the share `p` of a value among those who are observed.

    The share `q` in the population is `p` times a factor between two, and `q F(q) / p` the largest
    that this allows (sign -1) or the least (sign +1). Non-increasing in `p`, and `F(p)` where both
    factors are 1.

    Args:
        p: Probabilities, shares in [0, 1], any shape.
        k, population: As of `exposure_probability`; `2 <= k <= n`.
        factors: The least and the largest, positive.
        sign: -1 for an upper limit, +1 for a lower limit.

    Returns:
        float64 of the shape of `p`, in [0, largest factor].
    """
    shares = np.asarray(p, dtype=np.float64)

    def exposed(factor: NDArray[np.float64] | float) -> NDArray[np.float64]:
        there = np.minimum(factor * shares, 1.0)
        return factor * exposure_probability(there, k=k, population=population)

    least, most = factors
    if least == most:
        return exposed(most)
    if sign > 0:  # q F(q) rises, then falls
        return np.minimum(exposed(least), exposed(most))
    # q F(q) rises up to this share and falls beyond: largest there, or at the end nearest to it.
    peak = share_of_most_exposed(k, population)
    return exposed(np.clip(peak / np.maximum(shares, 1e-300), least, most))


@lru_cache(maxsize=64)
def share_of_most_exposed(k: int, population: int) -> float:
    """Share `p` of a value at which `p F(p)` is largest: its slope falls up to `k / n`."""

    def slope(multiple: float) -> float:
        p = multiple * k / population
        hidden = (k - 1) * binomial_probability(k - 1, population - 1, p)
        return float(exposure_probability(p, k=k, population=population)) - hidden

    # The slope of p F(p) is 1 at 0 and least at k / n, where it is not positive: one root between.
    return float(scipy.optimize.brentq(slope, 1e-6, 1.0)) * k / population


def most_exposed(k: int, population: int) -> float:
    """Largest `p F(p)`: what one value adds to the exposure at most, a share."""
    if k > population:
        return 1.0
    share = share_of_most_exposed(k, population)
    # Bounds multiply by it: rounded up.
    return share * float(exposure_probability(share, k=k, population=population)) * (1 + 1e-9)


def steepest_fall(k: int, population: int) -> float:
    """Most that the exposed users `p F(p)` fall by one more user with the value, at `p = k / n`.

    The slope is `F(p) - (k - 1) P(Bin(n - 1, p) = k - 1)`. Its derivative is
    `(k - 1) P(Bin(n - 1, p) = k - 1) (n p - k) / (p (1 - p))`, so the slope falls from 1 at `p = 0`
    to its minimum.
    """
    p = k / population
    peak = binomial_probability(k - 1, population - 1, p)
    return (k - 1) * peak - float(exposure_probability(p, k=k, population=population))


def statistical_exposure(
    probabilities: ArrayLike,
    *,
    k: int,
    population: int,
    multiplicities: ArrayLike | None = None,
) -> float:
    """Exposure `Q(n, k)` of a known distribution: the expected share of exposed users among `n`.

    Args:
        probabilities: Probabilities of the values, shape (s,), in [0, 1].
        multiplicities: How many values have each probability, shape (s,); one each when left out.

    Returns:
        A share of the users.

    Raises:
        InputError: The probabilities do not sum to 1.

    Notes:
        "Statistical anonymity", Definition 7: the sum of `p F(p)` over the values.
    """
    shares = np.asarray(probabilities, dtype=np.float64)
    mass = shares if multiplicities is None else shares * np.asarray(multiplicities)
    if abs(float(mass.sum()) - 1) > _PROBABILITY_SUM_TOLERANCE:
        raise InputError(f"probabilities must sum to 1, got {mass.sum()}")
    return min(float(mass @ exposure_probability(shares, k=k, population=population)), 1.0)


def empirical_exposure(spectrum: CountSpectrum, k: int) -> float:
    """Share of the observed users in groups of fewer than `k` observed users (strict).

    Notes:
        "Statistical anonymity", Definition 1 with `t = k / m`, compared as whole numbers.
    """
    check_threshold(k, MAX_POPULATION)
    return spectrum.users_below(k) / spectrum.users


def plug_in_exposure(spectrum: CountSpectrum, *, k: int, population: int) -> float:
    """Exposure `Q(n, k)` as if the observed shares were the true probabilities.

    Biased. For a population larger than the sample it errs low, dangerously so: a value seen once
    looks like `n / m` users, an unseen value like nobody. Never report it alone there.

    Notes:
        "Statistical anonymity", sections 7.1 and 7.2: `Q` of Definition 7 at the shares `c / m`.
    """
    check_threshold(k, population)
    return statistical_exposure(
        spectrum.counts / spectrum.users,
        k=k,
        population=population,
        multiplicities=spectrum.values,
    )


def unbiased_exposure(spectrum: CountSpectrum, *, k: int, population: int) -> float | None:
    """Minimum-variance unbiased estimate of `Q(n, k)`, or None for a population above the sample.

    The average, over all sub-databases of `n` of the observed users, of the share of users in
    groups of fewer than `k`. Equals the empirical exposure for `n = m`.

    Returns:
        A share of the users; None when `population` exceeds the observed users, where no unbiased
        estimate exists.

    Notes:
        Rarefaction (Hurlbert 1971, "The nonconcept of species diversity", Ecology 52) applied to
        Definition 7 of "Statistical anonymity".
    """
    check_threshold(k, population)
    if population > spectrum.users:
        return None
    exposed = subsample_exposure_probability(
        spectrum.counts, k=k, population=population, users=spectrum.users
    )
    return min(float(exposed @ spectrum.members) / spectrum.users, 1.0)


def subsample_exposure_probability(
    counts: NDArray[np.int64], *, k: int, population: int, users: int
) -> NDArray[np.float64]:
    """Probability that a user in a group of `c` is exposed in a random sub-database of `n`.

    `P(Hypergeom(m - 1, c - 1, n - 1) <= k - 2)`, to about 10 digits.

    Args:
        counts: int64, shape (s,): group sizes `c`, users, between 1 and `m`.
        population: `n`, users of the sub-database, at most `m`.
        users: `m`, users of the whole database.

    Returns:
        float64, shape (s,), shares; exactly 1 where `c < k`.
    """
    exposed = np.ones(counts.shape)
    large = counts >= k
    others = counts[large].astype(np.float64) - 1
    total, draws, most = users - 1.0, population - 1.0, k - 2.0
    tail = np.zeros(others.shape)
    # The sum runs from `most` away from the mean, so each side takes its short tail.
    below_mean = most * total <= others * draws
    tail[below_mean] = hypergeometric_lower_tail(
        np.full(int(below_mean.sum()), most), others[below_mean], draws, total
    )
    # Members that stay out of the draw are hypergeometric too, and their tail is the short one.
    outside = others[~below_mean]
    stay_out = hypergeometric_lower_tail(outside - most - 1, outside, total - draws, total)
    tail[~below_mean] = 1 - stay_out
    exposed[large] = tail
    return exposed


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ExposureCurve:
    """Empirical exposure as a function of the threshold: a step function, kept as whole numbers."""

    # int64, shape (s + 1,), increasing: the distinct group sizes, then the largest plus one.
    thresholds: NDArray[np.int64]
    # int64, same shape: users in groups strictly smaller than each threshold.
    users_below: NDArray[np.int64]
    # int64, same shape: distinct values with strictly fewer users than each threshold.
    values_below: NDArray[np.int64]
    users: int  # Observed users, `m`.

    @property
    def exposure(self) -> NDArray[np.float64]:
        """Share of the users strictly below each threshold."""
        return self.users_below / self.users

    def at(self, count: int) -> float:
        """Share of the users in groups of fewer than `count` users (strict)."""
        return float(self.exposure[self.position(count)])

    def position(self, counts: ArrayLike) -> NDArray[np.intp]:
        """Index into the arrays that holds for each threshold in `counts`, in users."""
        return np.searchsorted(self.thresholds[:-1], counts, side="left")


def exposure_curve(spectrum: CountSpectrum) -> ExposureCurve:
    """Empirical exposure at every threshold.

    Notes:
        "Statistical anonymity", Definition 1: strict, so groups of exactly the threshold are safe.
    """
    return ExposureCurve(
        thresholds=np.append(spectrum.counts, spectrum.counts[-1] + 1),
        users_below=np.append(0, np.cumsum(spectrum.members)),
        values_below=np.append(0, np.cumsum(spectrum.values)),
        users=spectrum.users,
    )


def gamma_dkw(users: int, delta: float) -> float:
    """Distance that no observed share exceeds, with probability `1 - delta`, for any support.

    `sqrt(2 ln(2 / delta) / m)`: a probability is a difference of two values of the distribution
    function, so twice the Dvoretzky-Kiefer-Wolfowitz distance.
    """
    check_share("delta", delta)
    return math.sqrt(2 * math.log(2 / delta) / users)


def limits_within(
    curve: ExposureCurve, gamma: float, thresholds: ArrayLike, *, support: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Limits of `Q(t)` when every probability is within `gamma` of its observed share.

    Args:
        gamma: Largest distance between a probability and its observed share.
        thresholds: Shares `t`, shape (s,).
        support: Number of values that users can have, seen or not; None when unknown.

    Returns:
        Lower and upper limits, float64, shape (s,), within [0, 1].

    Notes:
        "Statistical anonymity", proof of Theorem 5: values seen below `t - gamma` have `p < t`, and
        every value with `p < t` is seen below `t + gamma` or not at all. The mass of either group
        is bounded from its own values, as published, and from the values outside of it: the
        latter needs no support size, because the values seen at least `t + gamma` are all known.
    """
    shares = np.asarray(thresholds, dtype=np.float64)
    users_below, values_below = curve.users_below / curve.users, curve.values_below
    surely, possibly = (curve.position((shares + d) * curve.users) for d in (-gamma, gamma))
    floor = curve.position(gamma * curve.users)
    counted = np.maximum(surely, floor)
    own = users_below[counted] - users_below[floor]
    own -= gamma * (values_below[counted] - values_below[floor])
    # With t <= gamma an unseen value may be a large one.
    others = users_below[surely] - gamma * (values_below[-1] - values_below[surely])
    lower = np.maximum(own, np.where(shares > gamma, others, 0))
    unaccounted = values_below[-1] - values_below[possibly]
    if support is not None:
        # A product of the values of ten APIs is no int64.
        unaccounted = np.minimum(unaccounted, float(support) - unaccounted)
    upper = users_below[possibly] + gamma * unaccounted
    return np.clip(lower, 0, 1), np.clip(upper, 0, 1)


def binomial_probability(successes: int, trials: int, p: float) -> float:
    """Probability of so many successes in so many trials, to about 12 digits.

    Saddle-point form, as `log_hypergeometric`. (scipy.stats has it too, at 0.3 s for the
    import; scipy.special's `betaln` keeps 5 digits for 10^10 trials.)

    Args:
        successes, trials: Whole numbers, `0 <= successes <= trials`.
        p: Probability of success, in (0, 1].
    """
    # `deviance` would divide 0 by a mean of 0.
    if p >= 1:
        return float(successes == trials)
    cells = np.array([successes, trials - successes], dtype=np.float64)
    means = trials * np.array([p, 1 - p])
    excess = (successes - means[0]) * np.array([1, -1])
    logarithm = factorial_remainder(np.array([float(trials)]))[0]
    logarithm -= (factorial_remainder(cells) + deviance(cells, means, excess)).sum()
    return math.exp(min(logarithm, 0.0))


def _saturation(a: int, b: int) -> tuple[float, float]:
    """Where `betaincc(a, b, p)` is 1 up to, and from where on it is below 1e-290.

    Spares most of a million evaluations. scipy's inverses can be NaN or wrong (seen for a = 1000),
    so each is believed only after its own check.
    """
    one, zero = (
        float(scipy.special.betaincinv(a, b, 1e-17)),
        float(scipy.special.betainccinv(a, b, 1e-300)),
    )
    return (
        one if scipy.special.betaincc(a, b, one) == 1 else -math.inf,
        zero if scipy.special.betaincc(a, b, zero) < 1e-290 else math.inf,
    )
