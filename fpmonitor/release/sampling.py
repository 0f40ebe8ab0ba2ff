"""Sampling before a k-anonymous histogram: differential privacy without assumptions.

Each user is drawn with probability `rate`, on its own and in secret; counts of drawn users below
`k` are withheld. Whatever an attacker knows of all the others, one user more or less changes the
count of one value only, and the draws hide it.

Source: Li, Qardaji, Su (2012), "On sampling, anonymization, and differential privacy: or,
k-anonymization meets differential privacy"; below "sampling".
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from fpmonitor.errors import PolicyError
from fpmonitor.policy import check_share
from fpmonitor.release.binomial import log_pmf, log_tail
from fpmonitor.release.partial_knowledge import check_k, check_release_epsilon

_BLOCK = 4096  # crowds that are gone through at once
_MAX_CROWD = 10**8
_ROUNDING = 1e-9
_SEED = 16  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How users were drawn before a histogram, and what that proves."""

    rate: Annotated[float, msgspec.Meta(gt=0, lt=1)]  # Probability with which each user was drawn.
    # epsilon, delta: The table is (epsilon, delta)-differentially private for one user more or
    # less, in nats; a changed value counts as one less and one more.
    epsilon: Annotated[float, msgspec.Meta(ge=0)]
    delta: Annotated[float, msgspec.Meta(ge=0, le=1)]
    # Of the draws, hexadecimal. Who knows it knows who was drawn: the promise is for those who do
    # not.
    seed: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


def sampling_of(rate: float, k: int, epsilon: float, *, seed: bytes) -> Sampling:
    """Return a sampling and its proven delta.

    Args:
        seed: 16 bytes from a source of secrets.
    """
    delta = sampling_delta(rate, k, epsilon)
    return Sampling(rate=rate, epsilon=epsilon, delta=delta, seed=seed[:_SEED].hex())


def sampling_delta(rate: float, k: int, epsilon: float) -> float:
    """Delta of a histogram of drawn users at `epsilon`, over all possible data.

    Args:
        rate: Probability with which each user is drawn, in (0, 1).
        k: Counts of drawn users below it are withheld.
        epsilon: Nats; at least `-ln(1 - rate)`.

    Raises:
        PolicyError: A number is out of its range; the error names it.

    Notes:
        Sampling, Theorem 5, as an exact divergence. The user is one of `m` with its value. The
        count `j` of drawn ones is more likely with the user than without by `m (1 - rate) / (m -
        j)`, which exceeds `e^epsilon` for `j > m g` with `g = 1 - (1 - rate) e^-epsilon`; so with
        `X ~ Bin(m - 1, rate)` and the first such `c` that is at least `k`, delta is `rate P(X = c -
        1) - (e^epsilon - 1) P(X >= c)`. Without the user no outcome is more likely by more than `1
        / (1 - rate)`, a withheld count included. The largest over `m` is taken: for more users than
        were gone through delta is at most `exp(-m D(g, rate))` (Chernoff), which is less.
    """
    check_share("sample", rate)
    check_k(k)
    check_release_epsilon(epsilon)
    least = -math.log1p(-rate)
    if epsilon < least:
        raise PolicyError(
            "epsilon",
            f"must be at least {least:.6g} where the share {rate:g} is drawn, got {epsilon:g}",
            hint="draw fewer users, or raise epsilon",
        )
    cut_share = -math.expm1(math.log1p(-rate) - epsilon)
    spread = _relative_entropy(cut_share, rate)
    # Of fewer users with the value nothing is ever shown.
    best, start = 0.0, k
    while start <= _MAX_CROWD:
        crowd = np.arange(start, start + _BLOCK, dtype=np.float64)
        cut = np.maximum(np.floor(crowd * cut_share) + 1, k)
        inside = cut <= crowd
        m, c = crowd[inside], cut[inside]
        alone = rate * np.exp(log_pmf(c - 1, m - 1, rate, 1 - rate))
        beyond = math.expm1(epsilon) * np.exp(log_tail(c, m - 1, rate, 1 - rate))
        best = max(best, float(np.max(alone - beyond, initial=0.0)))
        start += _BLOCK
        if math.exp(-start * spread) <= best:
            return min(best * (1 + _ROUNDING), 1.0)
    raise PolicyError(
        "epsilon", "is so near to its least that no delta was found", hint="choose a larger epsilon"
    )


def drawn_users(users: int, sampling: Sampling) -> NDArray[np.bool_]:
    """Which of the users are drawn, in their order; by SHAKE-256 of the seed."""
    # Cryptographic: some who know that they were drawn must not find the draws of others.
    stream = hashlib.shake_256(bytes.fromhex(sampling.seed)).digest(8 * users)
    numbers = np.frombuffer(stream, dtype="<u8")
    return np.asarray(numbers < np.uint64(int(sampling.rate * 2**64)), dtype=np.bool_)


def _relative_entropy(a: float, b: float) -> float:
    """Nats between two coins."""
    return a * math.log(a / b) + (1 - a) * (math.log1p(-a) - math.log1p(-b)) if a < 1 else math.inf
