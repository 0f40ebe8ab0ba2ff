"""What a k-anonymous histogram guarantees to people of whom an attacker knows probabilities only.

The release publishes the count `N_v` of every value with `N_v >= k`, and nothing of users without a
value ("absent"). Records are independent; an attacker knows how probable each value is, and the
whole records of `known` users that it has not chosen (passive). The release is
(epsilon, delta)-private for a record when the distributions of its output for any two values of
that record differ by at most `e^epsilon` outside an event of probability `delta`; all deltas here
are exact hockey-stick divergences, in both directions, or upper bounds of them where said so.

Source: Desfontaines, "Lowering the cost of anonymization" (thesis 2020), section 3.2.3 with
Theorem 5; below "partial knowledge". Where print is wrong the docstrings say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fpmonitor.errors import PolicyError
from fpmonitor.policy import MAX_POPULATION, upward
from fpmonitor.release.binomial import log_pmf, log_tail, tail_ratio

MAX_EPSILON = 500.0
MAX_K = 10**6
MAX_UNEQUAL_RECORDS = 20_000
_SMALLEST = float(np.finfo(np.float64).tiny)
_EXACT_POINTS = 8192  # numbers of users that are summed one by one; beyond, evenly spaced ones
_SPACED_POINTS = 512
_STRIDES = 50
_GOLDEN = 0.6180339887
_SPACING_ERROR = 0.02  # times epsilon^2 + 1e-4, added
_NEGLIGIBLE = 760.0  # nats; e^-760 is not a float
_LEAST_DIFFERENCE = 1e-12  # what rounding may have left of a difference of two terms; errs high
_MAX_SPLITS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueGuarantee:
    """Deltas for a user with one value of probability p, against the same release without it.

    Attributes:
        delta_threshold: That the value passes the threshold at all, `P(Bin(n - 1, p) >= k - 1)`:
            what protects rare values, whatever epsilon.
        delta_count: Of the count of the value alone, published without a threshold: the exact
            divergence, where known records make n smaller.
        delta_histogram: Of the value against a second one of equal probability, in the whole
            histogram without a threshold: the mean over `N ~ Bin(n - 1, 2p)` of the delta of
            `Bin(N, 1/2)`. Above probability 1/2, where there is no room for a second one, against
            absent.
        delta_active: Of the value against absent, if the attacker has planted `k - 1` records of
            it: the exact divergence of the count of the others.
        delta: The best that is proven without planted records, `min(2 delta_threshold,
            delta_histogram)`: by rarity or by numbers.
    """

    delta_threshold: float
    delta_count: float
    delta_histogram: float
    delta_active: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramGuarantee:
    """Deltas of a whole histogram whose values are split into rare and common ones.

    A delta of 1 or more says nothing. A pair that the distribution does not have counts as 0.
    """

    epsilon: float  # Nats.
    common_from: float | None  # Least probability of a common value; null when all are rare.
    rare_up_to: float | None  # Largest probability of a rare value; null when all are common.
    # common_common, rare_absent, rare_rare, rare_common: Delta for two values of a record of these
    # kinds; a common value may also be absent.
    common_common: float
    rare_absent: float
    rare_rare: float
    rare_common: float

    @property
    def delta(self) -> float:
        """Delta for any two values, at most 1."""
        pairs = (self.common_common, self.rare_absent, self.rare_rare, self.rare_common)
        return min(max(pairs), 1.0)


def threshold_delta(
    users: int, probability: float, k: int, *, known: int = 0, copies: int | None = None
) -> float:
    """Delta of thresholding: the probability that the count reaches `k` with the user in question.

    (0, delta) holds for the complete histogram and a change from the value to absent: the outputs
    differ only if at least `k - 1` others have the value. Halve the trust for a change to another
    rare value.

    Args:
        users: `n`, users in the release.
        probability: Of the value, for each other user.
        k: Threshold: counts below it are not published.
        known: `m`, users whose records the attacker knows.
        copies: How many of the known records have the value. Left out, the average over what
            passive knowledge may turn out to be, which is the figure without any; `k - 1` copies
            give 1.

    Returns:
        A probability; never 0 for an event that can happen (rounded up to 2.2e-308).

    Raises:
        PolicyError: A number is out of its range; the error names it.

    Notes:
        Partial knowledge, Theorem 4 and 5. Print has `P(Bin(n, p) >= k)`: the others are `n - 1`
        and the threshold for them is `k - 1`; and its epsilon `-ln(1 - delta)` is not needed.
    """
    check_release(users, k=k, known=known)
    check_probability("probability", probability)
    if copies is None:
        known = copies = 0
    if not 0 <= copies <= known:
        raise PolicyError("copies", f"must lie between 0 and the known {known}, got {copies}")
    others = users - 1 - known
    return _share(float(log_tail(k - 1 - copies, others, probability, 1 - probability)))


def count_delta(users: int, probability: float, epsilon: float, *, known: int = 0) -> float:
    """Delta of publishing the count of one value, exactly.

    Args:
        users, probability, known: As in `threshold_delta`; known records only shrink the crowd.
        epsilon: Nats, at least 0.

    Notes:
        Partial knowledge, Theorem 5: the ratio of the two distributions at the count `s` grows with
        `s`, so one cut gives each direction: with `X ~ Bin(n - 1, p)`, `P(X >= s - 1) - e^epsilon
        P(X >= s)`.
    """
    check_release(users, known=known)
    check_probability("probability", probability)
    check_release_epsilon(epsilon)
    others = np.array([float(users - 1 - known)])
    shares = (probability, 1 - probability)
    logs = [_log_one_way(others, p, q, epsilon)[0] for p, q in (shares, shares[::-1])]
    return _share(float(max(logs)))


def active_delta(
    users: int, probability: float, k: int, epsilon: float, *, planted: int, known: int = 0
) -> float:
    """Delta of a thresholded count for an attacker who has planted records of the value, exactly.

    Of the value against absent. The others hide a user still: only where nobody else can have the
    value do `k - 1` planted records give a delta of 1.

    Args:
        users, probability, k: As in `threshold_delta`; planted and known records are among the `n`.
        epsilon: Nats, at least 0.
        planted: Records of the value that the attacker made; more than `k - 1` do not help.
        known: Further records that the attacker knows, of other values.

    Notes:
        Partial knowledge, active attackers. With `X ~ Bin(n - 1 - planted - known, p)` the count
        passes from `X >= k - 1 - planted` on with the user, and from one more on without. Both
        directions of the divergence fall as that cut rises, because ratios of binomial
        probabilities and of their distribution function fall: so `k - 1` records are the best
        choice, and give `count_delta`.
    """
    check_release(users, k=k, known=known)
    check_probability("probability", probability)
    check_release_epsilon(epsilon)
    _check_whole("planted", planted, 0, users - 1 - known)
    cut = k - 1 - planted
    if cut <= 0:
        return count_delta(users, probability, epsilon, known=planted + known)
    others = users - 1 - planted - known
    low, high = _likely_crowd(others, probability)
    numbers = np.arange(low, high + 2, dtype=np.float64)
    law = np.exp(log_pmf(numbers, others, probability, 1 - probability))
    # Both by the count as it is shown, 0 first: with the user, X is shown as X + 1.
    present = np.append(law[numbers < cut].sum(), np.where(numbers >= cut, law, 0))
    moved = np.append(law[numbers <= cut].sum(), np.where(numbers > cut, law, 0)[1:])
    missing = np.append(moved, 0.0)
    return max(_hockey_stick(present, missing, epsilon), _hockey_stick(missing, present, epsilon))


def pair_delta(
    users: int, probability: float, other: float, epsilon: float, *, known: int = 0
) -> float:
    """Delta of the whole histogram without threshold, for two values of one record.

    Exact to about 8 digits up to ten thousand users of the two values; beyond, too high by up to
    a share of `0.03 epsilon^2 + 1e-5` of it. A threshold can only lower it.

    Args:
        probability, other: Of the two values (one of them may be absent), together at most 1.
        epsilon: Nats, at least 0.

    Raises:
        PolicyError: A number is out of its range; the error names it.

    Notes:
        Partial knowledge, proof of Theorem 5, corrected: print looks at the count of one value
        only, but given the other counts only the users of these two values hide the record, which
        are `N ~ Bin(n - 1, p + p')`, with `Bin(N, p / (p + p'))` of the first. The count alone
        understates delta (n = 20, epsilon = 1: 0.018 for 0.024).
    """
    check_release(users, known=known)
    check_probability("probability", probability)
    check_probability("other", other)
    check_release_epsilon(epsilon)
    if probability + other > 1 + 1e-9:
        raise PolicyError("other", f"the two must sum to at most 1, got {probability} + {other}")
    if min(probability, other) == 0:
        return 1.0
    # Sorted: both directions are taken, so that either order is one entry of the cache.
    return _pair_delta(users - 1 - known, *sorted((probability, other)), epsilon)


def blanket_delta(users: int, least: float, epsilon: float, *, known: int = 0) -> float:
    """Delta of the whole histogram for any two values of probability at least `least`.

    Args:
        least: Lower limit of both probabilities, in every record, at most 1/2.

    Raises:
        PolicyError: A number is out of its range; the error names it.

    Notes:
        Partial knowledge, Theorem 5, delta_2, corrected: the paper takes two independent binomials,
        where the counts are parts of one multinomial (n = 100, 1/2, epsilon = 1: 1.2e-9 for
        8.6e-8). Tight when both probabilities are `least`.
    """
    if not 0 <= least <= 0.5:
        raise PolicyError("least", f"must lie between 0 and 1/2, got {least}")
    return pair_delta(users, least, least, epsilon, known=known)


def poisson_binomial_delta(
    probabilities: ArrayLike, epsilon: float, *, k: int | None = None
) -> float:
    """Delta of a count when every other user has a probability of its own; exact.

    Args:
        probabilities: float64, shape (others,): that each other user has the value; at most 20,000.
        epsilon: Nats, at least 0.
        k: Counts below it are published as 0; without it all are published.

    Raises:
        PolicyError: A number is out of its range, or too many records; the error names it.
    """
    shares = np.asarray(probabilities, dtype=np.float64)
    if shares.ndim != 1 or not (np.all(shares >= 0) and np.all(shares <= 1)):
        raise PolicyError("probabilities", "must be a list of numbers in [0, 1]")
    if shares.size > MAX_UNEQUAL_RECORDS:
        raise PolicyError(
            "probabilities",
            f"at most {MAX_UNEQUAL_RECORDS:,} records, got {shares.size:,}",
            hint="bound them from below and use `blanket_delta`",
        )
    check_release_epsilon(epsilon)
    least = 1 if k is None else check_k(k)
    if least > shares.size + 1:
        return 0.0
    law = _poisson_binomial(shares)
    present = _suppressed(np.append(0.0, law), least)
    missing = _suppressed(np.append(law, 0.0), least)
    delta = max(_hockey_stick(present, missing, epsilon), _hockey_stick(missing, present, epsilon))
    return max(delta, _SMALLEST)


def split_guarantee(
    users: int,
    *,
    common: float | None,
    rare: float | None,
    k: int,
    epsilon: float,
    known: int = 0,
    suppressed: bool = False,
) -> HistogramGuarantee:
    """Guarantee of the truncated histogram for a given split into rare and common values.

    Args:
        common: Lower limit of the probabilities of common values, and of absent, at most 1/2.
        rare: Upper limit of the probabilities of rare values.
        suppressed: Whether `common` is the lower limit of the probability of absent and all rare
            values together, rather than of absent alone.

    Notes:
        Partial knowledge, Theorem 5, sharpened: two common values need no detour over absent, so
        epsilon is not doubled; a rare value goes to a common one over absent, at `delta_2 +
        e^epsilon delta_1`.

        Absent values and rare ones together hide as absent ones do: let the record be that of a
        random user without a common value. Given how many of the others have this common value or
        none, such a record and a common one differ as in `pair_delta`, since the published rare
        counts depend on the number of users without a common value alone. Neither it nor the rare
        record passes the threshold, but with probability `delta_1` each: `delta_2 + 2 e^epsilon
        delta_1`.
    """
    check_release_epsilon(epsilon)
    by_numbers = (
        0.0 if common is None else blanket_delta(users, min(common, 0.5), epsilon, known=known)
    )
    by_rarity = 0.0 if rare is None else threshold_delta(users, rare, k, known=known)
    return guarantee_of(epsilon, common, rare, by_numbers, by_rarity, suppressed=suppressed)


def guarantee_of(
    epsilon: float,
    common: float | None,
    rare: float | None,
    by_numbers: float,
    by_rarity: float,
    *,
    suppressed: bool = False,
) -> HistogramGuarantee:
    """Put together what hides two common values, and a rare one and absent: `split_guarantee`."""
    both = common is not None and rare is not None
    passing = math.exp(epsilon) * by_rarity * (2 if suppressed else 1)
    return HistogramGuarantee(
        epsilon=epsilon,
        common_from=common,
        rare_up_to=rare,
        common_common=by_numbers,
        rare_absent=by_rarity,
        rare_rare=2 * by_rarity,
        rare_common=by_numbers + passing if both else 0.0,
    )


def histogram_guarantee(
    users: int, probabilities: ArrayLike, *, k: int, epsilon: float, known: int = 0
) -> HistogramGuarantee:
    """Guarantee of the truncated histogram of a distribution, with the split that minimises delta.

    Args:
        probabilities: float64, shape (values,): of every value, together at most 1; what is missing
            is absent. Common values are hidden only as well as the probability of absent, or of
            absent and all rare values together, can.

    Raises:
        PolicyError: A number is out of its range; the error names it.

    Notes:
        Partial knowledge, Theorem 5, as in `split_guarantee`. All splits are tried, or 200 evenly
        spaced ones: each is valid.
    """
    shares, times = np.unique(np.asarray(probabilities, dtype=np.float64), return_counts=True)
    total = math.fsum(shares * times)
    if not (shares.size and shares[0] >= 0 and total <= 1 + 1e-9):
        raise PolicyError("probabilities", "must be at least one, not negative, of sum at most 1")
    absent = max(1 - total, 0.0)
    hidden = absent + np.append(0.0, np.cumsum(shares * times))
    places = np.unique(np.linspace(0, shares.size - 1, _MAX_SPLITS).astype(int))
    best = split_guarantee(
        users, common=None, rare=float(shares[-1]), k=k, epsilon=epsilon, known=known
    )
    for place in places:
        rare = float(shares[place - 1]) if place else None
        splits = []
        for suppressed, least in ((False, absent), (True, float(hidden[place]))):
            # Absent is a value of the record, or the way to one.
            common = min(float(shares[place]), least if rare is not None or absent > 0 else 1.0)
            split = split_guarantee(
                users,
                common=common,
                rare=rare,
                k=k,
                epsilon=epsilon,
                known=known,
                suppressed=suppressed,
            )
            splits.append(split)
        best = min(best, *splits, key=lambda one: one.delta)
        if best.delta <= min(splits[0].rare_rare, 1.0):
            break  # from here on rare values alone cost more
    return best


def value_guarantee(
    users: int,
    probability: float,
    *,
    k: int,
    epsilon: float,
    known: int = 0,
    copies: int | None = None,
) -> ValueGuarantee:
    """Guarantee for a record with one value, and its twin of equal probability.

    Args:
        epsilon: Nats, at least 0.

    Notes:
        Partial knowledge, Theorem 5: both values rare give `(0, 2 delta_1)`, both common give
        `(epsilon, delta_2)`.
    """
    by_rarity = threshold_delta(users, probability, k, known=known, copies=copies)
    twin = min(probability, 1 - probability)
    by_numbers = pair_delta(users, probability, twin, epsilon, known=known)
    return ValueGuarantee(
        delta_threshold=by_rarity,
        delta_count=count_delta(users, probability, epsilon, known=known),
        delta_histogram=by_numbers,
        delta_active=active_delta(
            users,
            probability,
            k,
            epsilon,
            planted=min(k - 1, users - 1 - known),
            known=known,
        ),
        delta=min(2 * by_rarity, by_numbers, 1.0),
    )


def delta_curve(
    users: int, probability: float, *, k: int, epsilons: Sequence[float], known: int = 0
) -> NDArray[np.float64]:
    """Delta of `value_guarantee` at each epsilon, shape of `epsilons`; non-increasing."""
    return np.array(
        [
            value_guarantee(users, probability, k=k, epsilon=epsilon, known=known).delta
            for epsilon in epsilons
        ]
    )


def smallest_k(
    users: int, probabilities: ArrayLike, *, epsilon: float, delta: float, known: int = 0
) -> int | None:
    """Smallest threshold that makes the histogram (epsilon, delta)-private; None where none does.

    How far `k` may be lowered for a distribution that is known, without giving up the guarantee.

    Args:
        delta: Wanted, in (0, 1).
    """

    def reached(k: int) -> float:
        return histogram_guarantee(users, probabilities, k=k, epsilon=epsilon, known=known).delta

    return least_threshold(reached, users, delta)


def least_threshold(reached: Callable[[int], float], users: int, delta: float) -> int | None:
    """Smallest threshold at which a delta that falls with it is at most `delta`, or None.

    Raises:
        PolicyError: `delta` outside (0, 1).
    """
    if not 0 < delta < 1:
        raise PolicyError("delta", f"must lie strictly between 0 and 1, got {delta}")
    # At `high` delta is small enough; at `low` it is not, or not known to be.
    low, high = 1, min(users, MAX_K)
    if high < 2 or reached(high) > delta:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) <= delta else (middle, high)
    return high


def pitfalls(users: int, probability: float, *, k: int, epsilon: float) -> list[str]:
    """Say what the deltas do not cover, with numbers: no absent value, and active attackers."""
    threshold = threshold_delta(users, probability, k)
    bare = count_delta(users, probability, epsilon)
    no_absent_value = (
        "the number of users without a value must stay unknown: where everybody has one, a single "
        f"suppressed count follows from the others; delta is {upward(bare, 3)} then, not "
        f"{upward(threshold, 3)}"
    )
    planted = min(k - 1, users - 1)
    active = active_delta(users, probability, k, epsilon, planted=planted)
    active_attacker = (
        f"records must not be planted; after {planted} fake users of the same value only the "
        f"other real ones hide a user, and delta against absence is {upward(active, 3)}"
    )
    return [no_absent_value, active_attacker]


def check_release(users: int, *, k: int = 2, known: int = 0) -> None:
    """Check the size of a release, its threshold, and the number of records an attacker knows."""
    _check_whole("users", users, 1, MAX_POPULATION)
    check_k(k)
    _check_whole("known", known, 0, users - 1)


def check_k(k: int) -> int:
    """Return the threshold back when it is a whole number between 2 and a million."""
    _check_whole("k", k, 2, MAX_K)
    return k


def check_probability(argument: str, value: float) -> None:
    """Check that a probability lies in [0, 1].

    Raises:
        PolicyError: It does not; the error names `argument`.
    """
    if not 0 <= value <= 1:
        raise PolicyError(argument, f"must lie between 0 and 1, got {value}")


def check_release_epsilon(epsilon: float) -> None:
    """Check that epsilon is at least 0, and within what the numerics are tested for.

    Raises:
        PolicyError: It is not.
    """
    if not 0 <= epsilon <= MAX_EPSILON:
        raise PolicyError("epsilon", f"must lie between 0 and {MAX_EPSILON:g}, got {epsilon}")


def _check_whole(argument: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PolicyError(argument, f"must be a whole number, got {value!r}")
    if not least <= value <= most:
        raise PolicyError(argument, f"must lie between {least:,} and {most:,}, got {value:,}")


def _log_one_way(
    others: NDArray[np.float64], p: float, q: float, epsilon: float
) -> NDArray[np.float64]:
    """Log of delta from the distributions of a count with and without the user, in that order.

    `P(X >= s - 1) - e^epsilon P(X >= s)` with `X ~ Bin(others, p)`, at the first `s` that the user
    makes more likely by `e^epsilon`. The way back is the same with `p` and `q` exchanged.
    """
    if p == 0 or q == 0:
        return np.zeros(others.shape)
    users = others + 1
    cut = np.minimum(np.floor(users * _cut_share(p, q, epsilon)) + 1, users)
    beyond = np.zeros(others.shape)  # P(X >= cut) / P(X = cut - 1)
    inner = cut <= others
    beyond[inner] = ((others - cut + 1) * p / (cut * q))[inner]
    beyond[inner] *= tail_ratio(cut[inner], others[inner], p, q)
    difference = np.maximum(1 - math.expm1(epsilon) * beyond, _LEAST_DIFFERENCE)
    return np.minimum(log_pmf(cut - 1, others, p, q) + np.log(difference), 0.0)


def _cut_share(p: float, q: float, epsilon: float) -> float:
    """Share of the crowd from which on the user makes the count more likely by `e^epsilon`."""
    return p / (p + q * math.exp(-epsilon))


@lru_cache(maxsize=4096)
def _pair_delta(others: int, p: float, p_other: float, epsilon: float) -> float:
    """Delta for two values of positive probability; kept, because a search for k asks again."""
    together = p + p_other
    # A set, as equal probabilities have one direction.
    directions = {(p / together, p_other / together), (p_other / together, p / together)}
    return _share(
        max(_log_pair_delta(others, min(together, 1.0), *pair, epsilon) for pair in directions)
    )


def _log_pair_delta(others: int, together: float, p: float, q: float, epsilon: float) -> float:
    """Log of the mean delta of a count over the crowd of the users that may share two values."""
    if together == 1:
        return float(_log_one_way(np.array([float(others)]), p, q, epsilon)[0])
    low, high = _likely_crowd(others, together)
    stride, margin = 1, 0.0
    if high - low >= _EXACT_POINTS:
        stride = _stride((high - low) // _SPACED_POINTS, _cut_share(p, q, epsilon))
        margin = _SPACING_ERROR * (1e-4 + epsilon**2)
    numbers = np.arange(low, high + 1, stride, dtype=np.float64)
    weights = log_pmf(numbers, others, together, 1 - together)
    return _log_sum(weights + _log_one_way(numbers, p, q, epsilon)) + math.log(stride) + margin


def _likely_crowd(others: int, together: float) -> tuple[int, int]:
    """Numbers of users outside of which Bin(others, together) is not a float (Bernstein)."""
    mean = others * together
    reach = _NEGLIGIBLE / 3
    reach += math.sqrt(reach**2 + 2 * _NEGLIGIBLE * mean * (1 - together))
    return max(0, math.floor(mean - reach)), min(others, math.ceil(mean + reach))


def _stride(least: int, period: float) -> int:
    """Stride near `least` at which multiples of `period` spread evenly between whole numbers.

    Delta as a function of the crowd is smooth but for the rounding of its cut; with the golden
    ratio the roundings average out. The trapezoid rule on a bell does the rest: it is exact to all
    digits at a few points per standard deviation, and here has six.
    """
    strides = np.arange(least, least + _STRIDES)
    return int(strides[np.argmin(np.abs(strides * period % 1 - _GOLDEN))])


def _log_sum(logs: NDArray[np.float64]) -> float:
    """Log of a sum, from the logs of its terms."""
    largest = float(logs.max())
    return largest if largest == -math.inf else largest + math.log(np.exp(logs - largest).sum())


def _share(logarithm: float) -> float:
    """Probability from its log: 0 only if it is 0, at least the smallest float otherwise."""
    return 0.0 if logarithm == -math.inf else max(math.exp(min(logarithm, 0.0)), _SMALLEST)


def _poisson_binomial(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distribution of the number of successes, shape (trials + 1,), trial by trial."""
    law = np.zeros(shares.size + 1)
    law[0] = 1
    for trials, share in enumerate(shares, start=1):
        law[1 : trials + 1] = law[1 : trials + 1] * (1 - share) + law[:trials] * share
        law[0] *= 1 - share
    return law


def _suppressed(law: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Distribution of a count of which everything below `k` is published as 0."""
    return np.append(law[:k].sum(), law[k:])


def _hockey_stick(law: NDArray[np.float64], other: NDArray[np.float64], epsilon: float) -> float:
    return float(np.maximum(law - math.exp(epsilon) * other, 0).sum())
