"""Predicate singling out: how often an attacker isolates one user, by chance and by a release.

A predicate isolates a user when exactly one of the `n` records fulfils it. A predicate of weight
`w` (its probability for a fresh record) does so by chance with probability `B(n, w)`; a release
that lets an attacker find predicates of low weight that isolate clearly more often lets it single
out, in the sense of the law.

Source: Cohen and Nissim (2020), "Towards formalizing the GDPR's notion of singling out"; below
"singling out". Where print is wrong the docstrings say so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import PolicyError
from fpmonitor.release.binomial import log_pmf, log_tail
from fpmonitor.release.partial_knowledge import (
    check_epsilon,
    check_k,
    check_probability,
    check_release,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_BITS = 1000
_MAX_COUNTED = 200  # more users below the first cut are too improbable to matter
_DIGITS = 400  # of 1/k; rows that agree so far have probability 2^-400
_MAX_K = 200


def baseline(users: int, weight: float) -> float:
    """Probability that a predicate chosen without seeing any release isolates a user.

    `B(n, w) = n w (1 - w)^(n - 1)`, at most about 1/e, at `w = 1/n`.

    Parameters
    ----------
    users
        `n`, users in the data.
    weight
        Probability of the predicate for one record, in [0, 1].

    Raises
    ------
    PolicyError
        A number is out of its range; the error names it.

    Notes
    -----
    Singling out, section 3.2.
    """
    check_release(users)
    check_probability("weight", weight)
    if weight == 0:
        return 0.0
    if weight == 1:
        return float(users == 1)
    logarithm = math.log(users) + math.log(weight) + (users - 1) * math.log1p(-weight)
    return max(math.exp(logarithm), float(np.finfo(np.float64).tiny))


def best_baseline(users: int, weight: float) -> float:
    """Largest baseline of a predicate of weight at most `weight`; arguments as in `baseline`.

    Raises
    ------
    PolicyError
        A number is out of its range; the error names it.
    """
    check_release(users)
    return baseline(users, min(weight, 1 / users))


def count_bound(users: int, weight: float, *, counts: int = 1) -> float:
    """Upper bound of the success after exact counts of fixed predicates; at most 1.

    A count has `n + 1` answers, and guessing it costs that factor. The same holds for a release of
    the predicate's value for every record (singling out, Theorem 4.4: its order tells nothing).

    Parameters
    ----------
    users, weight
        As in `best_baseline`: predicates of at most this weight.
    counts
        Number of counts.

    Raises
    ------
    PolicyError
        A number is out of its range; the error names it.

    Notes
    -----
    Singling out, Proposition 4.2; for several counts the factors multiply.
    """
    if counts < 0:
        raise PolicyError("counts", f"must not be negative, got {counts}")
    base = best_baseline(users, weight)
    if base == 0:
        return 0.0
    return math.exp(min(math.log(base) + counts * math.log(users + 1), 0.0))


def dp_bound(users: int, weight: float, *, epsilon: float, delta: float = 0.0) -> float:
    """Upper bound of the success after an (epsilon, delta)-differentially private release.

    `n (e^epsilon w + delta)`; at 1 and above it says nothing.

    Parameters
    ----------
    users, weight
        As in `baseline`: predicates of at most this weight.
    epsilon
        Nats, at least 0.
    delta
        In [0, 1].

    Raises
    ------
    PolicyError
        A number is out of its range; the error names it.

    Notes
    -----
    Singling out, Theorem 5.4: `e^epsilon' B(n, w) + n delta` with the epsilon' of `dp_epsilon`,
    which is this number identically.
    """
    check_release(users)
    check_probability("weight", weight)
    check_epsilon(epsilon)
    check_probability("delta", delta)
    return users * (math.exp(epsilon) * weight + delta)


def dp_epsilon(users: int, weight: float, *, epsilon: float) -> float:
    """Factor, as its log, by which a private release may raise the baseline; nats.

    `epsilon' = epsilon + (n - 1) ln(1 / (1 - w))`. Arguments as in `dp_bound`.

    Raises
    ------
    PolicyError
        A number is out of its range; the error names it.

    Notes
    -----
    Singling out, Theorem 5.4.
    """
    check_release(users)
    check_probability("weight", weight)
    check_epsilon(epsilon)
    if weight == 1:
        raise PolicyError("weight", "must be below 1")
    return epsilon - (users - 1) * math.log1p(-weight)


def count_attack_success(
    users: int, bits: int, *, factor: int = 1, disguised: bool = False
) -> float:
    """Success of singling out by `bits + 1` composed counts; exact for uniform records.

    The first count asks for records below `2^bits factor / n`; the others read them bit by bit.

    Parameters
    ----------
    users
        `n`, users in the data.
    bits
        Bits of a record that are read; the predicate found has the weight `2^-bits`.
    factor
        Weight of the first predicate, as a multiple of 1/n.
    disguised
        Every count is joined with one of weight 1/2 (odd records), so that none is small.

    Raises
    ------
    PolicyError
        A number is out of its range; the error names it.

    Notes
    -----
    Singling out, Theorem 4.6, with the case that all but one of the records below the cut are 0;
    Remark 4.7 when disguised. There print has the condition `q*(x) = q0*(x) + 1` for
    `#q0* = #q* + 1`, and half the baseline for its value at half the weight, 0.303; with
    `factor = 2` all of the baseline is back.
    """
    check_release(users)
    if not 1 <= bits <= _MAX_BITS:
        raise PolicyError("bits", f"must lie between 1 and {_MAX_BITS}, got {bits}")
    values = first_cut(users, bits, factor=factor)
    values = (values + 1) // 2 if disguised else values
    weight = values / 2**bits
    success = baseline(users, weight)
    if 0 < weight < 1:
        for below in range(2, min(users, _MAX_COUNTED) + 1):
            others_zero = below * (1 - 1 / values) * math.exp(-(below - 1) * math.log(values))
            success += math.exp(float(log_pmf(below, users, weight, 1 - weight))) * others_zero
    return success


def first_cut(users: int, bits: int, *, factor: int = 1) -> int:
    """Return the number below which the first count of the attack asks for records.

    Raises
    ------
    PolicyError
        A factor below 1.
    """
    if factor < 1:
        raise PolicyError("factor", f"must be at least 1, got {factor}")
    whole = 1 << bits
    return min(-(-factor * whole // users), whole)


def bit_suppression_success(k: int) -> float:
    """Success of the positional predicate on bit suppression; exact for many random bits.

    Groups of `k` records have the bits suppressed in which they differ; the predicate asks whether
    the suppressed bits, read as a binary fraction, lie below 1/k.

    Parameters
    ----------
    k
        Size of the groups, 2 to 200.

    Raises
    ------
    PolicyError
        `k` is out of its range.

    Notes
    -----
    Singling out, section 6.2. Print has "> 2^(n/2) / k" for "<", and success about
    `(1 - 1/k)^(k - 1)`: suppressed columns are not constant, which pushes the records apart, so
    that it is 1, 3/5, 25/49, 0.45, ... for k = 2, 3, 4, 5.
    """
    if check_k(k) > _MAX_K:
        raise PolicyError("k", f"must be at most {_MAX_K}, got {k}")
    law: Mapping[tuple[int, int], float] = {(0, k): 1.0}
    rest = 1
    for _ in range(_DIGITS):
        digit, rest = divmod(2 * rest, k)
        law = _compare_digit(law, digit, k)
    return sum(probability for (below, _), probability in law.items() if below == 1)


def hash_attack_success(users: int, k: int, *, columns: int, weight: float) -> float:
    """Success of the hash predicate on bit suppression of uniform random bits; exact.

    Parameters
    ----------
    users
        `n`, users in the data.
    k
        Size of the groups.
    columns
        Bits of a record.
    weight
        Groups whose unsuppressed bits have a larger weight than this are passed by.

    Raises
    ------
    PolicyError
        A number is out of its range; the error names it.

    Notes
    -----
    Singling out, Theorem 6.1: about `eta B(k, 1/k)`, with the share `eta` of groups of low weight.
    Print of section 6.2 has the probability 2^-k for k bits to agree, for 2^(1-k).
    """
    check_release(users, k=k)
    if users < k:
        raise PolicyError("users", f"must be at least k = {k}, got {users}")
    if not 0 < weight <= 1:
        raise PolicyError("weight", f"must lie in (0, 1], got {weight}")
    agree = 2.0 ** (1 - k)
    common = np.arange(max(math.ceil(-math.log2(weight)), 0), columns + 1)
    probability = np.exp(log_pmf(common, columns, agree, 1 - agree))
    share = 2.0**-common / k
    others = users - k
    none_else = np.exp(others * np.log1p(-share))
    one_else = others * share * np.exp((others - 1) * np.log1p(-share))
    in_group, none_in_group = baseline(k, 1 / k), (1 - 1 / k) ** k
    return float(probability @ (in_group * none_else + none_in_group * one_else))


def interval_bucket_success(users: int, bits: int) -> float:
    """Success of naming the lower end of an interval bucket; exact for uniform records.

    Buckets that publish the smallest and the largest record in them publish two records; the
    predicate "is this number" isolates unless another user has the same.

    Parameters
    ----------
    users
        `n`, users in the data.
    bits
        Bits of a record; at most 26.

    Raises
    ------
    PolicyError
        A number is out of its range; the error names it.

    Notes
    -----
    Singling out, section 6, where print has "probability 1": it is about `1 - n 2^-bits / 2`.
    """
    check_release(users)
    if not 1 <= bits <= 26:
        raise PolicyError("bits", f"must lie between 1 and 26, got {bits}")
    above = 1 - np.arange(1, 2**bits + 1) / 2**bits
    return float(users * 2.0**-bits * np.sum(above ** (users - 1)))


def composition_success(users: int, bits: int) -> float:
    """Success against a pair of releases of which each alone is harmless; exact.

    One release publishes a key of `bits` bits, drawn from the data by von Neumann's method: pairs
    of the first half of the records whose leading bits differ give the bit of the first. The other
    publishes `bits` bits of the last record, encrypted by that key.

    Parameters
    ----------
    users
        `n`, users in the data, with independent uniform records.
    bits
        Length of the key; the predicate found has the weight `2^-bits`.

    Raises
    ------
    PolicyError
        A number is out of its range; the error names it.

    Notes
    -----
    Singling out, Theorem 4.9. Print takes `bits <= n / 8` with failure at most `e^(-n / 16)`: half
    of the rows make n/4 pairs and n/8 bits on average, so that `n / 8` fails half of the time;
    `bits <= n / 16` fails with probability at most `e^(-n / 32)` (Hoeffding).
    """
    check_release(users)
    if not 1 <= bits <= _MAX_BITS:
        raise PolicyError("bits", f"must lie between 1 and {_MAX_BITS}, got {bits}")
    enough = math.exp(float(log_tail(bits, users // 4, 0.5, 0.5)))
    return enough * math.exp((users - 1) * math.log1p(-(2.0**-bits)))


def _compare_digit(
    law: Mapping[tuple[int, int], float], digit: int, k: int
) -> Mapping[tuple[int, int], float]:
    """Distribution of (records below 1/k, records that agree so far) after one more binary digit.

    The column of the `k` records is uniform over those that are not constant.
    """
    after: defaultdict[tuple[int, int], float] = defaultdict(float)
    for (below, agree), probability in law.items():
        for ones in range(agree + 1):
            columns = math.comb(agree, ones) * 2 ** (k - agree) - (ones == agree) - (ones == 0)
            share = probability * (columns / (2**k - 2))
            if columns > 0 and digit:
                after[below + agree - ones, ones] += share
            elif columns > 0:
                after[below, agree - ones] += share
    return after
