"""Predicate singling out: how often an attacker isolates one user, by chance and by a release.

A predicate isolates a user when exactly one of the `n` records fulfils it. A predicate of weight
`w` (its probability for a fresh record) does so by chance with probability `B(n, w)`; a release
that lets an attacker find predicates of low weight that isolate clearly more often lets it single
out, in the sense of the law.

Source: Cohen and Nissim (2020), "Towards formalizing the GDPR's notion of singling out"; below
"singling out".
"""

from __future__ import annotations

import math

import numpy as np

from fpmonitor.errors import PolicyError
from fpmonitor.release.binomial import log_pmf
from fpmonitor.release.partial_knowledge import (
    check_probability,
    check_release,
    check_release_epsilon,
)


def isolation_baseline(users: int, weight: float) -> float:
    """Probability that a predicate chosen without seeing any release isolates a user.

    `B(n, w) = n w (1 - w)^(n - 1)`, at most about 1/e, at `w = 1/n`.

    Args:
        users: `n`, users in the data.
        weight: Probability of the predicate for one record, in [0, 1].

    Notes:
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
    """Largest baseline of a predicate of weight at most `weight`; see `isolation_baseline`."""
    check_release(users)
    return isolation_baseline(users, min(weight, 1 / users))


def best_baseline_above(users: int, weight: float) -> float:
    """Largest baseline of a predicate of weight at least `weight`; see `isolation_baseline`.

    Notes:
        Singling out, Corollary 3.2: weights far above 1/n isolate as rarely as those far below.
    """
    check_release(users)
    return isolation_baseline(users, max(weight, 1 / users))


def leftover_distance(min_entropy: float, bits: int) -> float:
    """Largest statistical distance of a hash and its function from uniform ones.

    Args:
        min_entropy: Of the hashed record, bits.
        bits: Length of the hash, whose function is drawn from a 2-universal family.

    Notes:
        Singling out, Lemma 2.2, the leftover hash lemma: `2^((bits - min_entropy) / 2) / 2`. For
        `k` records the distances add up (Corollary C.1, there with `j in [n]` for `j in [k]`).
    """
    return min(math.exp2((bits - min_entropy) / 2 - 1), 1.0)


def reached_baseline(users: int, weight: float, min_entropy: float) -> float:
    """Success that some predicate of weight at most `weight` reaches, if records have entropy.

    Without a lower limit of the entropy there may be no predicate of a small weight but the empty
    one. With one, "the hash of the record is below a number" is such a predicate for most functions
    of a 2-universal family.

    Args:
        min_entropy: `-log2` of the probability of the most frequent record, bits, at least 0.

    Raises:
        PolicyError: A number is out of its range; the error names it.

    Notes:
        Singling out, Claims 3.1 and 3.3 with Lemma 3.4, as a number: the weight of a predicate that
        accepts the share `s` of the hashes has the mean `s` and, because hashes of two records are
        independent, a variance of at most `s 2^-min_entropy`. By Chebyshev's inequality it lies
        within `d` of `s = w - d` but with probability `s 2^-min_entropy / d^2`, and isolates with
        `B(n, w - 2 d)` at least; the best `d` is taken. Print has the loss `3 2^-m`, and `B(n, 3
        2^-m)` in the proof for `B(n, w - 3 2^-m)`; its numbers `y / (2^m - 1)` miss the weight by
        `2^-m`: it is `y / 2^m`.
    """
    check_release(users)
    check_probability("weight", weight)
    if not 0 <= min_entropy < math.inf:
        raise PolicyError("min-entropy", f"must be a number from 0 on, got {min_entropy}")
    wanted = min(weight, 1 / users)
    if wanted == 0:
        return 0.0
    margins = wanted * np.geomspace(1e-9, 0.5, 2000)
    shares = wanted - margins
    failing = shares * 2.0**-min_entropy / margins**2
    reached = [isolation_baseline(users, max(float(share), 0.0)) for share in wanted - 2 * margins]
    return max(float(np.max((1 - failing) * reached)), 0.0)


def average_min_entropy_floor(min_entropy: float, users: int, k: int) -> float:
    """Average min-entropy that a record has at least when `k - 1` of `users` chosen ones are known.

    Args:
        min_entropy: Of one record, bits.
        users, k: Records, and the size of a group of a k-anonymous release that depends on all of
            them.

    Notes:
        Singling out, Lemma 6.3. Its first inequality, `H - (k - 1) log n`, is false: which records
        are known depends on all of them (nearest pair of 3 of 16 values: 1.71 bits, there at
        least 2.42). By a union bound over the choice it is `H - log(n C(n - 1, k - 1))`, which is
        at least `H - k log n`, and that is all that Theorem 6.1 needs.
    """
    check_release(users, k=k)
    choices = math.log2(users) + math.log2(math.comb(users - 1, k - 1))
    return max(min_entropy - choices, 0.0)


def dp_bound(users: int, weight: float, *, epsilon: float, delta: float = 0.0) -> float:
    """Upper bound of the success after an (epsilon, delta)-differentially private release.

    `n (e^epsilon w + delta)`; at 1 and above it says nothing.

    Args:
        users, weight: As in `isolation_baseline`: predicates of at most this weight.
        epsilon: Nats, at least 0.
        delta: In [0, 1].

    Notes:
        Singling out, Theorem 5.4: `e^epsilon' B(n, w) + n delta` with
        `epsilon' = epsilon + (n - 1) ln(1 / (1 - w))`, which is this number identically.
    """
    check_release(users)
    check_probability("weight", weight)
    check_release_epsilon(epsilon)
    check_probability("delta", delta)
    return users * (math.exp(epsilon) * weight + delta)


def dp_bound_above(users: int, weight: float, *, epsilon: float, delta: float = 0.0) -> float:
    """Upper bound of the success of weights of at least `weight`; arguments as in `dp_bound`.

    Notes:
        Singling out, Claim 5.6, which says that it vanishes, as a number for finite `n`. Draw `g`
        records anew: by group privacy the predicate then isolates as often up to a factor of `e^(g
        epsilon)`, and it is independent of the new records. Isolating needs that at most one of
        them fulfils it, `P(Bin(g, w) <= 1)`; that none does, `(1 - w)^g`, in a share `1 - g / n` of
        the choices of `g`; for all `n`, that exactly one does. `g` records cost `delta (e^(g
        epsilon) - 1) / (e^epsilon - 1)`. The least of all; at 1 it says nothing.
    """
    check_release(users)
    check_probability("weight", weight)
    check_release_epsilon(epsilon)
    check_probability("delta", delta)
    groups = np.unique(np.geomspace(1, users, min(users, 2000)).astype(np.int64))
    sizes = groups.astype(np.float64)
    # e^709 is the largest double; far below, the bound is 1.
    factor = np.minimum(sizes * epsilon, 700)
    spent = delta * (sizes if epsilon == 0 else np.expm1(factor) / math.expm1(epsilon))
    with np.errstate(divide="ignore"):
        none = sizes * np.log1p(-weight) if weight < 1 else np.full(sizes.shape, -np.inf)
        one = log_pmf(1, sizes, weight, 1 - weight) if 0 < weight < 1 else np.log(sizes == 1)
        if weight == 0:
            one = np.full(sizes.shape, -np.inf)
    at_most_one = np.exp(np.minimum(factor + np.logaddexp(none, one), 0)) + spent
    inside = sizes < users
    left = 1 - sizes[inside] / users
    none_of_them = (np.exp(np.minimum(factor + none, 0)) + spent)[inside] / left
    exactly_one = math.log(max(best_baseline_above(users, weight), float(np.finfo(float).tiny)))
    whole = math.exp(min(users * epsilon + exactly_one, 0)) + float(spent[-1])
    return float(min(1.0, at_most_one.min(), np.min(none_of_them, initial=1.0), whole))


def count_bound(users: int, weight: float, *, counts: int = 1) -> float:
    """Upper bound of the success after exact counts of predicates that were fixed beforehand.

    A count has `n + 1` answers, and guessing it costs that factor; for several they multiply.

    Args:
        counts: How many exact counts were answered.

    Raises:
        PolicyError: A number is out of its range; the error names it.

    Notes:
        Singling out, Proposition 4.2 and Corollary 4.3; Theorem 4.4 for the bits that were counted.
        A function of what was released, in any order, has the same bound (Lemma 4.1, Proposition
        4.5).
    """
    if counts < 0:
        raise PolicyError("counts", f"must be at least 0, got {counts}")
    base = best_baseline(users, weight)
    return math.exp(min(math.log(base) + counts * math.log(users + 1), 0.0)) if base else 0.0


def count_attack_success(
    users: int, bits: int, *, factor: int = 1, disguised: bool = False
) -> float:
    """Success of the attack by composed counts, exactly; arguments as in `attacks.attack_counts`.

    Notes:
        Singling out, Theorem 4.6, with the case that all but one of the records below the cut are
        0. Print has a weight of at most 1/n for the first predicate, which is `ceil(2^m / n) /
        2^m`: harmless. Remark 4.7 when disguised. The paper has the condition `q*(x) = q0*(x) +
        1` for `#q0* = #q* + 1`, and half the baseline for its value at half the weight, 0.303; with
        `factor = 2` all of the baseline is back.
    """
    values = first_cut(users, bits, factor=factor)
    values = (values + 1) // 2 if disguised else values
    weight = values / 2**bits
    success = isolation_baseline(users, weight)
    if 0 < weight < 1:
        # A cut is for a few records: more than 200 below it have no probability left.
        for below in range(2, min(users, 200) + 1):
            others_zero = below * (1 - 1 / values) * math.exp(-(below - 1) * math.log(values))
            success += math.exp(float(log_pmf(below, users, weight, 1 - weight))) * others_zero
    return success


def repeated_attack_success(users: int, bits: int, attempts: int) -> float:
    """Success of the attack by composed counts when it is begun again until one record is alone.

    Args:
        attempts: Hash functions that are tried; each costs one count, and the last one `bits` more.

    Raises:
        PolicyError: Fewer than 1 attempt.

    Notes:
        Singling out, the amplification after Theorem 4.6 and Corollary B.2: the first count shows
        whether an attempt will succeed, so `1 - (1 - B(n, w))^attempts`. About 20 attempts give
        0.9999.
    """
    if attempts < 1:
        raise PolicyError("attempts", f"must be at least 1, got {attempts}")
    weight = first_cut(users, bits) / 2**bits
    return -math.expm1(attempts * math.log1p(-isolation_baseline(users, weight)))


def first_cut(users: int, bits: int, *, factor: int = 1) -> int:
    """Return the number below which the first count of the attack asks for records.

    Raises:
        PolicyError: A factor below 1.
    """
    if factor < 1:
        raise PolicyError("factor", f"must be at least 1, got {factor}")
    whole = 1 << bits
    return min(-(-factor * whole // users), whole)
