"""The error bounds of "Statistical anonymity", in the forms that hold.

They are the baseline beside the Poisson certificate: on realistic sizes most are vacuous, and say
so. Source: Bravo-Hermsdorff, Busa-Fekete, Gunderson, Munoz Medina, Syed (2022), "Statistical
anonymity: Quantifying reidentification risks without reidentifying users".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.entropy import entropy_bits, exposure_bound_from_entropy
from fpmonitor.estimate.exposure import (
    exposure_curve,
    gamma_dkw,
    limits_within,
    plug_in_exposure,
    steepest_fall,
)
from fpmonitor.policy import check_share, check_threshold

if TYPE_CHECKING:
    from fpmonitor.spectrum import CountSpectrum

_UNKNOWN_SUPPORT = "the number of possible values is not known"
_LEAST_GAMMA = 1e-100  # the square of 1e-200 is 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Limits of a share."""

    # lower, upper: Shares, `0 <= lower <= upper <= 1`.
    lower: float
    upper: float
    reason: str = ""  # Why nothing better than [0, 1] can be said, or the empty string.

    @classmethod
    def of(cls, lower: float, upper: float, why: str) -> Self:
        """Return limits, and why they say nothing where they do."""
        found = cls(lower=lower, upper=upper)
        return replace(found, reason=why) if found.vacuous else found

    @property
    def vacuous(self) -> bool:
        """Whether the interval says nothing."""
        return self.lower <= 0 and self.upper >= 1

    @property
    def width(self) -> float:
        """Upper minus lower limit."""
        return self.upper - self.lower


def theorem5(
    spectrum: CountSpectrum, *, k: int, population: int, delta: float, support: int | None = None
) -> Interval:
    """Limits of `Q(t)`, the share of users whose value has probability below `t = k / n`.

    Valid with probability at least `1 - delta` for any distribution. Concerns the exposure curve of
    the population, not the statistical exposure `Q(n, k)`.

    Args:
        k, population: Anonymity threshold and `n`, users; only their ratio matters.
        delta: Tolerated probability that a limit fails, in (0, 1).
        support: Number of values that users can have, seen or not. It must be known beforehand: the
            number of values seen is not it. When None, limits are given that need no support size.

    Notes:
        "Statistical anonymity", Theorem 5: all observed shares are within `gamma` of their
        probabilities. The proof (Hoeffding and a union bound) needs `ln(2 |V| / delta)`; the
        printed `ln(|V| / delta)` is unproved, though no counter-example is known. Without a
        support, or where it is smaller, `gamma` is that of Dvoretzky, Kiefer and Wolfowitz. Unseen
        values are covered without knowing their number by bounding the mass of the frequent values
        from below, see `exposure.limits_within`; the printed term `gamma |V|` is looser.
    """
    check_threshold(k, population)
    gamma = gamma_dkw(spectrum.users, delta)
    if support is not None:
        check_support(spectrum, support)
        gamma = min(gamma, gamma_hoeffding(spectrum.users, support, delta))
    lower, upper = limits_within(exposure_curve(spectrum), gamma, [k / population], support=support)
    why = f"shares are known to within {gamma:.2g} only, k/n is {k / population:.2g}"
    return Interval.of(float(lower[0]), float(upper[0]), why)


def gamma_hoeffding(users: int, support: int, delta: float) -> float:
    """Distance that no observed share exceeds, with probability `1 - delta`, for known support.

    `sqrt(ln(2 |V| / delta) / (2 m))`.

    Notes:
        "Statistical anonymity", Theorem 5, with the constant that its proof supports.
    """
    check_share("delta", delta)
    return math.sqrt(math.log(2 * support / delta) / (2 * users))


def users_for_gamma(gamma: float, *, delta: float, support: int | None = None) -> int:
    """Users that are enough for all observed shares to be within `gamma` of their probabilities.

    Args:
        gamma: Wanted distance, in (0, 1).
        delta: Tolerated probability that one is farther away, in (0, 1).
        support: Number of values that users can have, known beforehand; None when unknown.

    Raises:
        InputError: `support` below 1.

    Notes:
        "Statistical anonymity", Theorem 5, solved for the sample: `ln(2 |V| / delta) / (2
        gamma^2)`, where the paper has `ln(|V| / delta)`; or `2 ln(2 / delta) / gamma^2` (Dvoretzky,
        Kiefer, Wolfowitz) where that is less or the support unknown.
    """
    check_share("gamma", gamma)
    if gamma < _LEAST_GAMMA:
        raise PolicyError("gamma", f"must be at least {_LEAST_GAMMA:g}, got {gamma}")
    check_share("delta", delta)
    needed = 2 * math.log(2 / delta)
    if support is not None:
        if support < 1:
            raise InputError(f"support: must be at least 1, got {support}")
        needed = min(needed, math.log(2 * support / delta) / 2)
    return math.ceil(needed / gamma**2)


def theorem6_floor(support: int) -> float:
    """Worst-case risk that no estimator of the exposure curve can beat: 1/32, from two values on.

    The risk is the expected largest distance between the estimated and the true curve, at the
    worst distribution over `s` values, however large the sample.

    Args:
        support: `s`: number of values that users can have.

    Raises:
        InputError: `support` below 2.

    Notes:
        "Statistical anonymity", Theorem 6, has `1 / (16 s)`. Distributions on two values are among
        those on `s`, so that the floor of `s = 2` holds for all. In print the estimate is a number;
        it must be a function of `t`, and two lines of the proof in Appendix F are reversed. The
        conclusion survives.
    """
    if support < 2:
        raise InputError(f"support: must be at least 2, got {support}")
    return 1 / 32


def theorem8(
    spectrum: CountSpectrum, *, k: int, population: int, delta: float, support: int | None = None
) -> Interval:
    """Limits of the statistical exposure `Q(n, k)` around its plug-in estimate.

    Valid with probability at least `1 - delta` for any distribution on `support` values. Useful
    only when the sample is much larger than the support.

    Args:
        delta: Tolerated probability that a limit fails, in (0, 1).
        support: Number of values that users can have, seen or not, known beforehand: for a set of
            APIs the product of the numbers of values each can return. When None the answer is [0,
            1].

    Notes:
        Replaces "Statistical anonymity", Theorem 8, which is false as published: for `n = k =
        1000`, distribution (1 - 10^-5, 10^-5) and all users seen on the first value, the error is
        0.00995 and the printed bound 0.00054; its closed form also uses a bound on the sum of
        `sqrt(p / (1 - p))` that fails for skewed distributions. Valid: `|Q_p - Q_q| <= L ||p -
        q||_1` with `lipschitz_constant`, and `||p - q||_1 <= sqrt(|V| / m) + sqrt(2 ln(1 / delta) /
        m)` (Jensen and McDiarmid).
    """
    check_threshold(k, population)
    check_share("delta", delta)
    if support is None:
        return Interval.of(0.0, 1.0, _UNKNOWN_SUPPORT)
    check_support(spectrum, support)
    users = spectrum.users
    distance = math.sqrt(support / users) + math.sqrt(2 * math.log(1 / delta) / users)
    error = lipschitz_constant(k, population) * distance
    estimate = plug_in_exposure(spectrum, k=k, population=population)
    why = f"the distribution is known to within {distance:.2g} only (sum of differences)"
    return Interval.of(max(estimate - error, 0.0), min(estimate + error, 1.0), why)


def lipschitz_constant(k: int, population: int) -> float:
    """Smallest `L` with `|Q_p(n, k) - Q_q(n, k)| <= L ||p - q||_1` by the slope of `p F(p)`.

    Notes:
        Half the range of the slope, see `steepest_fall`.
    """
    check_threshold(k, population)
    return (1 + steepest_fall(k, population)) / 2


def entropy_upper_bits(spectrum: CountSpectrum, *, support: int, delta: float) -> float:
    """Upper confidence limit of the entropy of a distribution on `support` values, bits.

    Valid with probability at least `1 - delta`.

    Args:
        support: Number of values that users can have, seen or not, known beforehand.
        delta: Tolerated probability that the limit fails, in (0, 1).

    Notes:
        The plug-in entropy falls short of the true one by `ln(1 + (|V| - 1) / m)` nats on average
        at most (Paninski 2003, "Estimation of entropy and mutual information", Proposition 1), and
        one user moves it by at most `(ln m + 1) / m`, so McDiarmid's inequality bounds the rest (as
        in Antos and Kontoyiannis 2001, "Convergence properties of functional estimates for discrete
        distributions", who have `2 ln m / m`).
    """
    check_share("delta", delta)
    check_support(spectrum, support)
    users = spectrum.users
    bias = math.log1p((support - 1) / users)
    noise = (math.log(users) + 1) * math.sqrt(math.log(1 / delta) / (2 * users))
    return min(entropy_bits(spectrum) + (bias + noise) / math.log(2), math.log2(support))


def proposition9(
    spectrum: CountSpectrum, *, k: int, population: int, delta: float, support: int | None = None
) -> Interval:
    """Limit of `Q(t)`, `t = k / n`, that follows from the entropy alone.

    Valid with probability at least `1 - delta` for any distribution on `support` values.

    Args:
        k, population: Anonymity threshold and `n`, users; only their ratio matters.
        delta: Tolerated probability that the limit fails, in (0, 1).
        support: Number of values that users can have. When None the answer is [0, 1]: without it,
            no sample bounds an entropy from above.

    Notes:
        "Statistical anonymity", Proposition 9, at `entropy_upper_bits`.
    """
    check_threshold(k, population)
    check_share("delta", delta)
    if support is None:
        return Interval.of(0.0, 1.0, _UNKNOWN_SUPPORT)
    # t = 1: its logarithm, by which the entropy would be divided, is 0.
    if k == population:
        return Interval.of(0.0, 1.0, "k is the whole population")
    bits = entropy_upper_bits(spectrum, support=support, delta=delta)
    upper = exposure_bound_from_entropy(bits, k / population)
    return Interval.of(0.0, upper, f"the entropy may be {bits:.2f} bits, log2(n/k) is less")


def check_support(spectrum: CountSpectrum, support: int) -> None:
    """Refuse a declared support that is smaller than the number of values seen (InputError)."""
    if support < spectrum.support:
        raise InputError(
            f"support: {support} is smaller than the {spectrum.support} values that were seen"
        )
