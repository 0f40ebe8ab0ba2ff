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
from fpmonitor.release.partial_knowledge import (
    check_epsilon,
    check_probability,
    check_release,
)


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
    Singling out, Theorem 5.4: `e^epsilon' B(n, w) + n delta` with
    `epsilon' = epsilon + (n - 1) ln(1 / (1 - w))`, which is this number identically.
    """
    check_release(users)
    check_probability("weight", weight)
    check_epsilon(epsilon)
    check_probability("delta", delta)
    return users * (math.exp(epsilon) * weight + delta)


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
