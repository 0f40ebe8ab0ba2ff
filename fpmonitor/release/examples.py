"""The attacks of "singling out" on its example releases, run and compared with what is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fpmonitor.release import paper_releases as paper
from fpmonitor.release.attacks import attack_counts, check_trials, success_limits
from fpmonitor.release.singling_out import (
    best_baseline,
    count_attack_success,
    repeated_attack_success,
)

_LIMIT = 0.0005  # each limit of the success is wrong with this probability
_USERS = 128
_BITS = 20
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleAttack:
    """How often an attack on an example isolated a record, and how often it should."""

    # example, source: The release, and the place in the paper.
    example: str
    source: str
    exact: float  # Success, exactly.
    # success, lower, upper: Share of the runs that isolated a record, and its confidence limits.
    success: float
    lower: float
    upper: float
    by_luck: float  # Largest success of predicates of that weight without a release.


def example_attacks(trials: int, *, rng: np.random.Generator) -> tuple[ExampleAttack, ...]:
    """Run the attacks on the examples of the paper.

    Args:
        trials: Runs of each.
        rng: Draws records, hash functions and groups.
    """
    check_trials(trials)
    found = []
    for example, source, exact, by_luck, run in _examples(rng):
        successes = sum(run() for _ in range(trials))
        lower, upper = success_limits(successes, trials, _LIMIT)
        found.append(
            ExampleAttack(
                example=example,
                source=source,
                exact=exact,
                success=successes / trials,
                lower=lower,
                upper=upper,
                by_luck=by_luck,
            )
        )
    return tuple(found)


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
        paper.composition_success(_USERS, 8),
        best_baseline(_USERS, 2.0**-8),
        lambda: paper.composition_attack(bits(_USERS, 9), 8),
    )
    yield (
        "bit suppression, hash predicate",
        "Theorem 6.1",
        paper.hash_attack_success(40, 5, columns=256, weight=2.0**-12),
        best_baseline(40, 2.0**-12),
        lambda: paper.hash_attack_on_bits(bits(40, 256), 5, weight=2.0**-12, rng=rng),
    )
    yield (
        "bit suppression, positional predicate",
        "section 6.2",
        paper.bit_suppression_success(3),
        # At least 10 of the 128 columns are kept but with probability 1e-6.
        best_baseline(3, 2.0**-10),
        lambda: paper.positional_attack_on_bits(bits(3, 128), 3),
    )
    yield (
        "interval buckets",
        "section 6.2",
        paper.interval_bucket_success(100, 16),
        best_baseline(100, 2.0**-16),
        lambda: paper.interval_attack(rng.integers(0, 2**16, 100)),
    )
