"""The attacks of "singling out" on its example releases, run and compared with what is exact."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpmonitor.release.attacks import (
    accepts,
    attack_counts,
    check_trials,
    draw_hash,
    success_limits,
)
from fpmonitor.release.binomial import log_pmf, log_tail
from fpmonitor.release.singling_out import (
    best_baseline,
    count_attack_success,
    isolation_baseline,
    repeated_attack_success,
)


def bit_suppression_success(k: int) -> float:
    """Section 6.2: success of "the suppressed bits, read as a fraction, are below 1/k".

    Print has "> 2^(n/2) / k" for "<", and success about `(1 - 1/k)^(k - 1)`: suppressed columns
    are not constant, which pushes the records apart, so that it is 1, 3/5, 25/49, 0.45, ... for
    k = 2, 3, 4, 5. Of all columns a share of `2^(1 - k)` is kept, where the paper has `2^-k`.
    """
    distribution: Mapping[tuple[int, int], float] = {(0, k): 1.0}
    rest = 1
    # Records that agree in 400 binary digits have no probability left.
    for _ in range(400):
        digit, rest = divmod(2 * rest, k)
        distribution = _compare_digit(distribution, digit, k)
    return sum(share for (below, _), share in distribution.items() if below == 1)


def _compare_digit(
    distribution: Mapping[tuple[int, int], float], digit: int, k: int
) -> Mapping[tuple[int, int], float]:
    """Count records below 1/k, and those that agree so far, after one more binary digit.

    The column of the `k` records is uniform over those that are not constant.
    """
    after: defaultdict[tuple[int, int], float] = defaultdict(float)
    for (below, agree), probability in distribution.items():
        for ones in range(agree + 1):
            columns = math.comb(agree, ones) * 2 ** (k - agree) - (ones == agree) - (ones == 0)
            share = probability * (columns / (2**k - 2))
            if columns > 0 and digit:
                after[below + agree - ones, ones] += share
            elif columns > 0:
                after[below, agree - ones] += share
    return after


def hash_attack_success(users: int, k: int, *, columns: int, weight: float) -> float:
    """Theorem 6.1 on bit suppression of uniform bits, groups of a larger weight passed by.

    Print of section 6.2 has the probability 2^-k for k bits to agree, for 2^(1-k). In the proof
    (Claim 6.2) conditioning on a low weight of the group changes the min-entropy of its records:
    the event is one more bit that is known, so that the bound is
    `eta (1/e - n 2^-m) - k_max alpha^2`, with one more bit of entropy asked for.
    """
    agree = 2.0 ** (1 - k)
    common = np.arange(max(math.ceil(-math.log2(weight)), 0), columns + 1)
    probability = np.exp(log_pmf(common, columns, agree, 1 - agree))
    share = 2.0**-common / k
    others = users - k
    none_else = np.exp(others * np.log1p(-share))
    one_else = others * share * np.exp((others - 1) * np.log1p(-share))
    in_group, none_in_group = isolation_baseline(k, 1 / k), (1 - 1 / k) ** k
    return float(probability @ (in_group * none_else + none_in_group * one_else))


def interval_bucket_success(users: int, bits: int) -> float:
    """Section 6.2, buckets that publish their least record: about `1 - n 2^-bits / 2`, not 1."""
    above = 1 - np.arange(1, 2**bits + 1) / 2**bits
    return float(users * 2.0**-bits * np.sum(above ** (users - 1)))


def composition_success(users: int, bits: int) -> float:
    """Theorem 4.9: a key drawn from the data, and bits of the last record encrypted by it.

    Print takes `bits <= n / 8` with failure at most `e^(-n / 16)`: half of the rows make n/4 pairs
    and n/8 bits on average, so that `n / 8` fails half of the time; `bits <= n / 16` fails with
    probability at most `e^(-n / 32)` (Hoeffding).
    """
    enough = math.exp(float(log_tail(bits, users // 4, 0.5, 0.5)))
    return enough * math.exp((users - 1) * math.log1p(-(2.0**-bits)))


def suppress_bits(records: NDArray[np.bool_], k: int) -> list[tuple[NDArray[np.intp], Any]]:
    """Members and suppressed columns of groups of `k` rows; the last takes what is left over."""
    ends = [*range(k, len(records) - k + 1, k), len(records)]
    starts = [0, *ends[:-1]]
    groups = [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
    return [(rows, np.ptp(records[rows].astype(np.int8), axis=0) > 0) for rows in groups]


def hash_attack_on_bits(
    records: NDArray[np.bool_], k: int, *, weight: float, rng: np.random.Generator
) -> bool:
    """Whether a hash predicate on a group of a bit suppression isolates a record (Theorem 6.1)."""
    groups = suppress_bits(records, k)
    rows, suppressed = groups[int(rng.integers(len(groups)))]
    is_shown = ~suppressed
    # The group is too common for its predicates to count.
    if 2.0 ** -int(is_shown.sum()) > weight:
        return False
    fits = np.flatnonzero((records[:, is_shown] == records[rows[0], is_shown]).all(axis=1))
    _, numbers = np.unique(records[fits], axis=0, return_inverse=True)
    drawn = rng.integers(2**64, size=int(numbers.max()) + 1, dtype=np.uint64)
    words = drawn[numbers.ravel()]  # equal records have equal words
    accepted = accepts(words, share=1 / len(rows), function=draw_hash(rng))
    return int(accepted.sum()) == 1


def positional_attack_on_bits(records: NDArray[np.bool_], k: int) -> bool:
    """Whether the predicate of `bit_suppression_success` isolates in the first group."""
    rows, suppressed = suppress_bits(records, k)[0]
    places = 0.5 ** np.arange(1, int(suppressed.sum()) + 1)
    return int((records[rows][:, suppressed] @ places < 1 / len(rows)).sum()) == 1


def interval_attack(numbers: NDArray[np.int64]) -> bool:
    """Whether the lower end of a published interval of all numbers isolates a record."""
    return int((numbers == numbers.min()).sum()) == 1


def composition_attack(records: NDArray[np.bool_], bits: int) -> bool:
    """Whether the two releases of `composition_success` isolate the last record."""
    leading = records[: 2 * (len(records) // 4), 0]
    first, second = leading[0::2], leading[1::2]
    key = first[first != second][:bits]
    if len(key) < bits:
        return False
    encrypted = records[-1, 1 : bits + 1] ^ key
    found = encrypted ^ key
    return int((records[:, 1 : bits + 1] == found).all(axis=1).sum()) == 1


_LIMIT = 0.0005  # each limit of the success is wrong with this probability
_USERS = 128
_BITS = 20
_ATTEMPTS = 20


def example_attacks(trials: int, *, rng: np.random.Generator) -> list[dict[str, object]]:
    """Run the attacks on the examples of the paper, and return a row of each.

    These are the release, its place in the paper and the exact success; the share of the runs that
    isolated a record, with its limits; and the largest success of predicates of that weight without
    a release.

    Args:
        trials: Runs of each.
        rng: Draws records, hash functions and groups.
    """
    check_trials(trials)
    rows: list[dict[str, object]] = []
    for example, source, exact, by_luck, run in _examples(rng):
        successes = sum(run() for _ in range(trials))
        lower, upper = success_limits(successes, trials, _LIMIT)
        rows.append(
            {
                "example": example,
                "source": source,
                "exact": exact,
                "success": successes / trials,
                "lower": lower,
                "upper": upper,
                "by_luck": by_luck,
            }
        )
    return rows


def _examples(
    rng: np.random.Generator,
) -> Iterator[tuple[str, str, float, float, Callable[[], bool]]]:
    """Name, place, exact success and luck of each example, and what runs it once."""

    def counts(*, disguised: bool = False, attempts: int = 1) -> Callable[[], bool]:
        def run() -> bool:
            words = rng.integers(2**64, size=_USERS, dtype=np.uint64)
            outcome = attack_counts(
                words, bits=_BITS, trials=1, rng=rng, disguised=disguised, attempts=attempts
            )
            return outcome.successes == 1

        return run

    def bits(users: int, columns: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        return rng.random((users, columns)) < 0.5

    luck = best_baseline(_USERS, 2.0**-_BITS)
    exact = count_attack_success(_USERS, _BITS)
    yield f"{_BITS + 1} exact counts", "Theorem 4.6", exact, luck, counts()
    exact = count_attack_success(_USERS, _BITS, disguised=True)
    yield "the same, disguised", "Remark 4.7", exact, luck, counts(disguised=True)
    exact = repeated_attack_success(_USERS, _BITS, _ATTEMPTS)
    yield "the same, repeated", "Corollary B.2", exact, luck, counts(attempts=_ATTEMPTS)
    yield (
        "a key from the data, and bits under it",
        "Theorem 4.9",
        composition_success(_USERS, 8),
        best_baseline(_USERS, 2.0**-8),
        lambda: composition_attack(bits(_USERS, 9), 8),
    )
    yield (
        "bit suppression, hash predicate",
        "Theorem 6.1",
        hash_attack_success(40, 5, columns=256, weight=2.0**-12),
        best_baseline(40, 2.0**-12),
        lambda: hash_attack_on_bits(bits(40, 256), 5, weight=2.0**-12, rng=rng),
    )
    yield (
        "bit suppression, positional predicate",
        "section 6.2",
        bit_suppression_success(3),
        # At least 10 of the 128 columns are kept but with probability 1e-6.
        best_baseline(3, 2.0**-10),
        lambda: positional_attack_on_bits(bits(3, 128), 3),
    )
    yield (
        "interval buckets",
        "section 6.2",
        interval_bucket_success(100, 16),
        best_baseline(100, 2.0**-16),
        lambda: interval_attack(rng.integers(0, 2**16, 100)),
    )
