"""Entropy of browser APIs, in bits, and how far its common reading misleads.

Entropy is an average: it can look harmless while some users are alone. It stands here because
others report it, next to the exposure that `exposure` computes. All estimators take count spectra.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.polynomial import Chebyshev, Polynomial

from fpmonitor.errors import InputError
from fpmonitor.policy import check_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.spectrum import CountSpectrum

_LN2 = math.log(2)


def entropy_bits(spectrum: CountSpectrum) -> float:
    """Shannon entropy of the observed shares, bits; below the population's on average.

    Notes:
        Shannon (1948), "A mathematical theory of communication", at the shares `c / m` (plug-in,
        maximum likelihood).
    """
    shares = spectrum.counts / spectrum.users
    return max(float(-(spectrum.values * shares) @ np.log2(shares)), 0.0)


def naive_group_size(entropy_bits: float, population: int) -> float:
    """Users that share each value if the distribution were uniform: `n / 2^H`.

    The common reading of an entropy, right for uniform distributions only: see `misleading_factor`.

    Args:
        entropy_bits: `H`, bits, not negative.

    Returns:
        Users, possibly less than one.

    Raises:
        InputError: The entropy is negative or not finite.
    """
    if not (np.isfinite(entropy_bits) and entropy_bits >= 0):
        raise InputError(f"entropy_bits: must be finite and not negative, got {entropy_bits}")
    if entropy_bits >= 1024:  # 2 to that is above all floats
        return float(population * 2.0**-entropy_bits)
    return float(population / 2**entropy_bits)


def misleading_factor(spectrum: CountSpectrum, *, share: float = 0.5, least: int = 1) -> float:
    """How many times larger the naive group size is than the group of a real user.

    The real user is the one such that `share` of the users are in groups no larger than its own:
    the median user for 0.5, the best off of the worst 1 % for 0.01. Equals 1 for a uniform
    distribution. Often below 1 for the median user and far above 1 for the worst, whom the
    entropy says nothing about.

    Args:
        share: Share of the users, in (0, 1).
        least: Smaller groups count as groups of so many users.

    Returns:
        A ratio of group sizes, in the sample; the population cancels.
    """
    check_share("share", share)
    users_up_to = np.cumsum(spectrum.members)
    real = spectrum.counts[np.searchsorted(users_up_to, share * spectrum.users)]
    return naive_group_size(entropy_bits(spectrum), spectrum.users) / max(float(real), least)


def misleading_factors(spectrum: CountSpectrum, *, least: int = 1) -> tuple[float, float, float]:
    """`misleading_factor` of the median user, of the worst 5 % and of the worst 1 %."""
    median, worst_5, worst_1 = (
        misleading_factor(spectrum, share=share, least=least) for share in (0.5, 0.05, 0.01)
    )
    return median, worst_5, worst_1


def miller_madow_entropy_bits(spectrum: CountSpectrum) -> float:
    """Plug-in entropy plus the first-order correction of its bias, bits.

    Still too low when most values are rare.

    Notes:
        Miller (1955), "Note on the bias of information estimates": adds `(s - 1) / (2 m)` nats for
        `s` values seen.
    """
    users = _users_for_estimate(spectrum)
    return entropy_bits(spectrum) + (spectrum.support - 1) / (2 * users * _LN2)


def chao_shen_entropy_bits(spectrum: CountSpectrum) -> float:
    """Coverage-adjusted Horvitz-Thompson estimate of the entropy, bits.

    Notes:
        Chao and Shen (2003), "Nonparametric estimation of Shannon's index of diversity when there
        are unseen species in sample". The coverage is that of Good and Turing, `1 - f_1 / m`; when
        all values were seen once it would be 0, and `1 / m` stands in.
    """
    users = _users_for_estimate(spectrum)
    singletons = int(spectrum.values[spectrum.counts == 1].sum())
    coverage = 1 - min(singletons, users - 1) / users
    shares = coverage * spectrum.counts / users
    # If all users share one value, its share is 1, and ln(1 - 1) would be infinite.
    seen = -np.expm1(users * np.log1p(-np.minimum(shares, 1 - 2**-53)))
    return max(float(-spectrum.values @ (shares * np.log2(shares) / seen)), 0.0)


def grassberger_entropy_bits(spectrum: CountSpectrum) -> float:
    """Estimate of the entropy whose bias falls exponentially with the expected counts, bits.

    Notes:
        Grassberger (2003), "Entropy estimates from insufficient samplings", arXiv:physics/0307138:
        `ln m - sum c G(c) / m`, `G(c) = psi(c) + (-1)^c (psi((c + 1) / 2) - psi(c / 2)) / 2`.
    """
    users = _users_for_estimate(spectrum)
    counts = spectrum.counts
    sign = np.where(counts % 2, -0.5, 0.5)
    g = scipy.special.psi(counts) + sign * (
        scipy.special.psi((counts + 1) / 2) - scipy.special.psi(counts / 2)
    )
    nats = math.log(users) - float(spectrum.values @ (counts * g)) / users
    return max(nats / _LN2, 0.0)


def minimax_entropy_bits(spectrum: CountSpectrum) -> float:
    """Estimate of the entropy whose worst-case error has the smallest possible order, bits.

    Rare values use an unbiased estimate of the polynomial that best approximates `-x ln x` on
    `[0, 2 ln m / m]`, frequent ones the plug-in with Miller's correction; in the upper half of
    that interval the two are mixed.

    Notes:
        Jiao, Venkat, Han, Weissman (2015), "Minimax estimation of functionals of discrete
        distributions", IEEE Transactions on Information Theory 61 (JVHW); Wu and Yang (2016) have
        the same rate. As in their published experiments the sample is not split. The degree `1.2 ln
        m` (at most 14, for the sake of rounding) and the interval were chosen by simulation: theory
        fixes them up to constants.
    """
    users = _users_for_estimate(spectrum)
    width = min(2 * math.log(users) / users, 1.0)
    shares = spectrum.counts / users
    plug_in = -shares * np.log(shares) + (1 - shares) / (2 * users)
    rare = _polynomial_entropy_terms(spectrum.counts, users, width)
    frequent = np.clip(2 * shares / width - 1, 0, 1)
    nats = spectrum.values @ np.where(
        frequent < 1, frequent * plug_in + (1 - frequent) * rare, plug_in
    )
    return max(float(nats) / _LN2, 0.0)


def normalised_entropy(spectrum: CountSpectrum) -> float:
    """Plug-in entropy divided by its maximum `log2 m` for `m` users, between 0 and 1.

    Falls as the sample grows: never compare samples of different sizes by it.

    Notes:
        Laperdrix, Rudametkin, Baudry (2016), "Beauty and the beast: diverting modern web browsers
        to build unique browser fingerprints".
    """
    return entropy_bits(spectrum) / math.log2(_users_for_estimate(spectrum))


def unbiased_tsallis_entropy(spectrum: CountSpectrum, order: int = 2) -> float:
    """Unbiased estimate of the population's Tsallis entropy of whole order, without unit.

    For order 2 the share of pairs of different users that differ.

    Raises:
        InputError: `order` is not a whole number from 2 to the number of users.

    Notes:
        Falling factorials `c (c - 1) ... / (m (m - 1) ...)` are unbiased for the powers of `p`
        (Simpson 1949, "Measurement of diversity", for order 2).
    """
    if not 2 <= order <= spectrum.users or order % 1:
        raise InputError(f"order: must be a whole number from 2 to the users, got {order}")
    powers = np.ones(spectrum.counts.shape)
    for drawn in range(order):
        powers *= np.maximum(spectrum.counts - drawn, 0) / (spectrum.users - drawn)
    return (1 - float(spectrum.values @ powers)) / (order - 1)


def min_entropy_bits(spectrum: CountSpectrum) -> float:
    """Min-entropy of the observed shares, bits: what guessing the commonest value leaves.

    Notes:
        Renyi (1961), "On measures of entropy and information", order infinity: `-log2 max p`.
    """
    return math.log2(spectrum.users / int(spectrum.counts[-1]))


def average_min_entropy_bits(spectra: Iterable[CountSpectrum]) -> float:
    """Average min-entropy of the observed users given their cohort, bits.

    Args:
        spectra: Count spectrum of each cohort.

    Notes:
        Dodis, Ostrovsky, Reyzin, Smith 2008: `-log2` of the probability that the commonest value of
        the cohort is right.
    """
    cohorts = list(spectra)
    guessed = sum(int(spectrum.counts[-1]) for spectrum in cohorts)
    return math.log2(sum(spectrum.users for spectrum in cohorts) / guessed)


def conditional_entropy_bits(joint: CountSpectrum, given: CountSpectrum) -> float:
    """Plug-in entropy that an API set adds for one who knows another set, bits.

    Args:
        joint: Spectrum of both sets together.
        given: Spectrum of the set that is known, of the same users.

    Raises:
        InputError: The spectra are not of the same number of users, or `joint` is coarser than
            `given`.

    Notes:
        Chain rule, Shannon (1948): `H(J | X) = H(J, X) - H(X)`.
    """
    if joint.users != given.users:
        raise InputError(f"spectra of {joint.users} and {given.users} users: must be the same")
    if joint.support < given.support:
        raise InputError("the joint spectrum has fewer values than the one of its part")
    return max(entropy_bits(joint) - entropy_bits(given), 0.0)


def mutual_information_bits(
    joint: CountSpectrum, first: CountSpectrum, second: CountSpectrum
) -> float:
    """Plug-in information that two API sets share, bits.

    Above the population's on average. `joint` is the spectrum of both sets together.

    Notes:
        Shannon (1948): `I(X; Y) = H(X) - H(X | Y)`.
    """
    return max(entropy_bits(first) - conditional_entropy_bits(joint, second), 0.0)


def chow_liu_upper_bits(
    singles: Sequence[CountSpectrum], pairs: Mapping[tuple[int, int], CountSpectrum]
) -> float:
    """Upper bound on the joint entropy of all APIs from single APIs and pairs, bits.

    Holds for the observed shares, whatever their joint distribution.

    Args:
        singles: Spectrum of each API.
        pairs: Spectrum of the pair of APIs `(i, j)`, positions in `singles`; pairs may be missing.

    Raises:
        InputError: A pair names an unknown API, or its spectrum does not fit those of its APIs.

    Notes:
        Chow and Liu (1968), "Approximating discrete probability distributions with dependence
        trees": the tree distribution of largest mutual information has at least the entropy of any
        distribution with the same pairs. Missing pairs leave a forest, whose entropy is larger.
    """
    if any(not 0 <= api < len(singles) for pair in pairs for api in pair):
        raise InputError(f"pairs: positions must be below {len(singles)}")
    information = {
        (i, j): mutual_information_bits(joint, singles[i], singles[j])
        for (i, j), joint in pairs.items()
    }
    tree = list(range(len(singles)))
    bits = math.fsum(entropy_bits(single) for single in singles)
    # Kruskal: the tree of the largest mutual information is the least upper bound.
    for i, j in sorted(information, key=lambda pair: -information[pair]):
        if tree[i] != tree[j]:
            bits -= information[i, j]
            merged, remaining_label = tree[i], tree[j]
            tree = [remaining_label if label == merged else label for label in tree]
    return bits


def exposure_bound_from_entropy(entropy_bits: float, t: float) -> float:
    """Largest exposure `Q(t)` that an entropy allows: the share of users whose value has p < t.

    Args:
        entropy_bits: Entropy of the distribution, bits.
        t: Threshold as a probability, in (0, 1): `k / n`.

    Returns:
        A share of the users; 1 says nothing.

    Raises:
        InputError: The entropy is negative or not a number.

    Notes:
        "Statistical anonymity", Proposition 9 (Markov's inequality for `-log p`): `Q(t) <= H / -log
        t` with both logarithms to base 2. `extremal_law` shows that it is tight.
    """
    check_share("t", t)
    if not entropy_bits >= 0:
        raise InputError(f"entropy_bits: must not be negative, got {entropy_bits}")
    return min(entropy_bits / -math.log2(t), 1.0)


def extremal_law(rare_entropy_bits: float, t: float) -> NDArray[np.float64]:
    """Distribution that attains `exposure_bound_from_entropy` up to the common value's bits.

    Returns the probabilities of the rare values, `t` each, and then of a common one, if any.

    Args:
        rare_entropy_bits: Entropy to spend on rare values, bits. The whole distribution has at most
            `log2(e) / e` = 0.53 more.
        t: Probability of each rare value, in (0, 1).

    Raises:
        InputError: The entropy is not positive or more than values of probability `t` can carry.

    Notes:
        "Statistical anonymity", Proposition 13, corrected: exposure is strict, so `Q(t) = 0` and
        the share `N t` is exposed at any threshold above `t`; the entropy is `-N t log t - r log
        r`, with minus signs, for `r = 1 - N t`.
    """
    check_share("t", t)
    # The entropy of exactly N values must give N, which division may round to below.
    values = math.floor(rare_entropy_bits / (-t * math.log2(t)) * (1 + 1e-12))
    if not 1 <= values <= 1 / t:
        raise InputError(
            f"rare_entropy_bits: {rare_entropy_bits} gives {values} values of probability {t}",
            hint="between 1 and 1/t of them make a distribution",
        )
    rest = 1 - values * t
    return np.append(np.full(values, t), [rest] if rest > 0 else [])


def _users_for_estimate(spectrum: CountSpectrum) -> int:
    """Users of a spectrum that says something about a population."""
    if spectrum.users < 2:
        raise InputError("spectrum: one user says nothing about a population")
    return spectrum.users


def _polynomial_entropy_terms(
    counts: NDArray[np.int64], users: int, width: float
) -> NDArray[np.float64]:
    """Unbiased estimates, nats, of the polynomial approximation of `-p ln p` on `[0, width]`."""
    degree = min(max(math.floor(1.2 * math.log(users)), 2), 14, users)
    terms = -counts / users * math.log(width)
    power = np.ones(counts.shape)
    # Frequent counts are not used, and their powers would overflow.
    rare = np.minimum(counts, math.ceil(width * users))
    for drawn, coefficient in enumerate(best_entropy_polynomial(degree)):
        power = power * np.maximum(rare - drawn, 0) / ((users - drawn) * width)
        terms = terms + width * coefficient * power
    return terms


@functools.cache
def best_entropy_polynomial(degree: int) -> tuple[float, ...]:
    """Coefficients of `x, x^2, ...` of the best approximation of `-x ln x` on [0, 1].

    Smallest largest error among the polynomials of `degree` without a constant (a value that
    nobody has must not count), to the accuracy of a linear programme on a Chebyshev grid.
    """
    x = (1 - np.cos(np.linspace(0, np.pi, 40 * degree))) / 2
    target = -np.log(np.where(x > 0, x, 1)) * x
    # Powers of x would be nearly dependent at degree 14, and the programme inaccurate.
    basis = [x * Chebyshev.basis(j, domain=(0, 1))(x) for j in range(degree)]
    columns = np.stack([*basis, np.zeros_like(x)], axis=1)
    error = np.eye(1, degree + 1, degree)
    solution = scipy.optimize.linprog(
        error[0],
        A_ub=np.vstack([columns - error, -columns - error]),
        b_ub=np.concatenate([target, -target]),
        bounds=[(None, None)] * (degree + 1),
        method="highs",
    )
    if not solution.success:
        raise ArithmeticError(f"best polynomial of degree {degree}: {solution.message}")
    monomials = Chebyshev(solution.x[:degree], domain=(0, 1)).convert(kind=Polynomial)
    return tuple(float(coefficient) for coefficient in monomials.coef)


ENTROPY_ESTIMATORS = {
    "plug-in": entropy_bits,
    "miller-madow": miller_madow_entropy_bits,
    "chao-shen": chao_shen_entropy_bits,
    "grassberger": grassberger_entropy_bits,
    "minimax": minimax_entropy_bits,
}
"""Estimators of the Shannon entropy in bits, by the name that the literature gives them."""
