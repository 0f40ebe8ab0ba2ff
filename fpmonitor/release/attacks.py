"""Attacks that single users out, as code that runs against releases and counts.

Each attack sees what a reader of the release sees, and ends in a predicate; whether that isolates
is looked up in the data afterwards. Source: Cohen and Nissim (2020), "Towards formalizing the
GDPR's notion of singling out"; below "singling out".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.ldp.frequency import clopper_pearson
from fpmonitor.policy import check_share
from fpmonitor.release.singling_out import best_baseline, first_cut
from fpmonitor.results import Members

Words = NDArray[np.uint64]
Predicate = Callable[[Words], NDArray[np.bool_]]
Count = Callable[[Predicate], int]

_WORD_BITS = 64
_HALF = np.uint64(32)
MAX_HASH_BITS = 33  # of 64; the family is 2-universal up to there


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult(Members):
    """How often an attack isolated a user by a predicate within the limit of weight."""

    JSON: ClassVar[str] = "attack trials successes success lower upper weight baseline singles_out"

    attack: str  # What was done.
    # trials, successes: Runs, and those that isolated exactly one user.
    trials: int
    successes: int
    # lower, upper: Confidence limits of the success, each wrong with probability at most delta.
    lower: float
    upper: float
    weight: float  # Largest weight that a predicate might have.
    baseline: float  # Largest success of predicates of that weight without any release.

    @property
    def success(self) -> float:
        """Share of the runs that isolated a user."""
        return self.successes / self.trials

    @property
    def singles_out(self) -> bool:
        """Whether the success is above the baseline, beyond chance."""
        return self.lower > self.baseline


def success_limits(successes: int, trials: int, delta: float) -> tuple[float, float]:
    """Lower and upper confidence limit of a probability (Clopper and Pearson 1934).

    Args:
        successes, trials: Whole numbers, at least 1 trial.
        delta: Tolerated probability that a limit fails, each.
    """
    (lower,), (upper,) = clopper_pearson(np.array([successes]), trials, delta)
    return float(lower), float(upper)


def draw_hash(rng: np.random.Generator) -> Words:
    """Draw a function of the 2-universal family of `hash_bits`: three numbers of 64 bits."""
    return rng.integers(2**64, size=3, dtype=np.uint64)


def hash_bits(words: Words, function: Words, bits: int) -> Words:
    """Hashes of 64-bit words, uint64 below `2^bits`, by a function of a 2-universal family.

    Over the functions every hash is uniform, and the hashes of two different words are independent:
    that is what the attacks are proved with, and no more.

    Args:
        words: uint64, any shape.
        function: As `draw_hash` draws them.
        bits: Length of the hash, at most 33.

    Notes:
        Singling out, Definition 2.2. Multiply-shift on the two halves of the word: the leading bits
        of `high w_1 + low w_2 + shift` modulo 2^64 (Dietzfelbinger 1996, "Universal hashing and
        k-wise independent random variables via integer arithmetic without primes").
    """
    halves = words >> _HALF, words & np.uint64(2**32 - 1)
    high, low, shift = function
    mixed = high * halves[0] + low * halves[1] + shift
    return np.asarray(mixed >> np.uint64(_WORD_BITS - bits), dtype=np.uint64)


def hash_shares(
    sizes: NDArray[np.int64], group_weights: NDArray[np.float64], *, weight: float
) -> NDArray[np.float64]:
    """Share of a group that its hash predicate accepts: 1/size, or less to keep to the limit.

    Args:
        sizes: int64, shape (groups,): users of each group.
        group_weights: float64, same shape, above 0: probability that a fresh record belongs to the
            group.
        weight: Limit of the weight of a predicate.
    """
    shares: NDArray[np.float64] = np.minimum(group_weights / sizes, weight) / group_weights
    return shares


def attack_groups(
    groups: NDArray[np.int64],
    words: Words,
    group_weights: NDArray[np.float64],
    *,
    weight: float,
    trials: int,
    rng: np.random.Generator,
    delta: float = 0.05,
) -> AttackResult:
    """Hash predicates on the groups of a k-anonymous release.

    Pick a group and a hash function; the predicate accepts the members of the group whose hash is
    below 1/size. Where the group has a low weight, so has the predicate, and it isolates a member
    with probability about 1/e.

    Args:
        groups: int64, shape (users,): row of the release that stands for each user, -1 for none.
        words: uint64, same shape: a word per user that equal records share.
        group_weights: float64, shape (rows,): as in `hash_shares`.
        weight: Limit of the weight of a predicate.
        trials: Runs, each with a new group and a new hash function.
        rng: Draws groups and keys.
        delta: See `AttackResult`.

    Raises:
        InputError: No group has a user.

    Notes:
        Singling out, Theorem 6.1: success `eta B(k, 1/k)` with the share `eta` of groups of low
        weight.
    """
    check_trials(trials)
    check_share("weight", weight)
    members = members_of_groups(groups, len(group_weights))
    if not (filled := [row for row, rows in enumerate(members) if len(rows)]):
        raise InputError("no user belongs to a row of the release")
    shares = hash_shares(
        # Rows without users are never drawn; 1 only avoids a division by 0.
        np.array([max(len(rows), 1) for rows in members]),
        group_weights,
        weight=weight,
    )
    successes = sum(
        # Predicates name their row, so that no user of another one fulfils them.
        int(accepts(words[members[row]], share=shares[row], function=draw_hash(rng)).sum() == 1)
        for row in rng.choice(filled, size=trials)
    )
    name = "hash predicate on a group of the release (Theorem 6.1)"
    return _result(name, successes, trials=trials, users=len(groups), weight=weight, delta=delta)


def members_of_groups(groups: NDArray[np.int64], rows: int) -> list[NDArray[np.intp]]:
    """Positions of the users of each row of a release."""
    order = np.argsort(groups, kind="stable")
    # Users of no row, -1, come before the first edge.
    edges = np.searchsorted(groups[order], np.arange(rows + 1))
    return [order[start:end] for start, end in itertools.pairwise(edges)]


def read_by_counts(
    count: Count,
    users: int,
    bits: int,
    *,
    factor: int = 1,
    disguised: bool = False,
    alone: bool = False,
) -> int | None:
    """Read a record off `bits + 1` counts; None where the counts show that it failed.

    Args:
        count: Answers how many records fulfil a predicate on their `bits`-bit numbers.
        users: `n`, users in the data.
        bits: Length of the numbers; at most 33.
        factor: Weight of the first count, as a multiple of 1/n.
        disguised: Ask about weights near 1/2 only: every predicate is joined with "odd".
        alone: Give up at the first count unless it is 1, which makes success certain.

    Notes:
        Singling out, Theorem 4.6, and Remark 4.7 when disguised. Print of the remark has the
        condition `q*(x) = q0*(x) + 1`; it is that the joined count is larger by one.
    """
    _check_bits(bits)
    below = np.uint64(first_cut(users, bits, factor=factor))
    odd = count(_is_odd) if disguised else 0

    def differ(bit: int | None) -> int:
        def asked(numbers: Words) -> NDArray[np.bool_]:
            chosen: NDArray[np.bool_] = numbers < below
            if bit is not None:
                chosen &= _is_odd(numbers >> np.uint64(bit))
            return chosen | _is_odd(numbers) if disguised else chosen

        return count(asked) - odd

    below_the_cut = differ(None)
    if below_the_cut == 0 or (alone and below_the_cut > 1):
        return None
    digits = [differ(bit) for bit in range(bits)]
    # Several records are below the cut: their bits are mixed.
    if max(digits) > 1:
        return None
    return sum(digit << bit for bit, digit in enumerate(digits))


def attack_counts(
    words: Words,
    *,
    bits: int,
    trials: int,
    rng: np.random.Generator,
    factor: int = 1,
    disguised: bool = False,
    attempts: int = 1,
    delta: float = 0.05,
) -> AttackResult:
    """Composition of exact counts over the data: some 30 harmless counts, and one user is found.

    Args:
        words: uint64, shape (users,): a word per user that equal records share; each run hashes
            anew.
        bits: As in `read_by_counts`; the predicate found has the weight `2^-bits`.
        attempts: How many hash functions a run tries at most, until a record is alone below the
            cut.

    Notes:
        Singling out, Theorem 4.6; one more attempt after each that fails makes its success
        `singling_out.repeated_attack_success`, as near to 1 as one likes (also Corollary B.2).
    """
    check_trials(trials)
    _check_bits(bits)

    def isolated() -> bool:
        return _isolated_by_counts(
            words,
            draw_hash(rng),
            bits,
            factor=factor,
            disguised=disguised,
            alone=attempts > 1,
        )

    successes = sum(any(isolated() for _ in range(attempts)) for _ in range(trials))
    source = "Remark 4.7" if disguised else "Theorem 4.6"
    return _result(
        f"{bits + 1 + disguised} exact counts of the data, composed ({source})"
        if attempts == 1
        else f"the same counts, begun anew up to {attempts} times ({source}, amplified)",
        successes,
        trials=trials,
        users=len(words),
        weight=2.0**-bits,
        delta=delta,
    )


def _isolated_by_counts(
    words: Words, function: Words, bits: int, *, factor: int, disguised: bool, alone: bool
) -> bool:
    numbers = hash_bits(words, function, bits)

    def count(predicate: Predicate) -> int:
        return int(predicate(numbers).sum())

    found = read_by_counts(count, len(words), bits, factor=factor, disguised=disguised, alone=alone)
    return found is not None and int((numbers == np.uint64(found)).sum()) == 1


def check_trials(trials: int) -> None:
    """Check a number of runs.

    Raises:
        PolicyError: Below 1.
    """
    if trials < 1:
        raise PolicyError("trials", f"must be at least 1, got {trials}")


def _check_bits(bits: int) -> None:
    if not 1 <= bits <= MAX_HASH_BITS:
        raise PolicyError("bits", f"must lie between 1 and {MAX_HASH_BITS}, got {bits}")


def _is_odd(numbers: Words) -> NDArray[np.bool_]:
    return (numbers & np.uint64(1)).astype(np.bool_)


def accepts(words: Words, *, share: float, function: Words) -> NDArray[np.bool_]:
    """Hash predicate of weight `share`, rounded down to a multiple of 2^-33."""
    below = np.uint64(int(min(share, 1.0) * 2**MAX_HASH_BITS))
    accepted: NDArray[np.bool_] = hash_bits(words, function, MAX_HASH_BITS) < below
    return accepted


def _result(
    attack: str, successes: int, *, trials: int, users: int, weight: float, delta: float
) -> AttackResult:
    lower, upper = success_limits(successes, trials, delta)
    return AttackResult(
        attack=attack,
        trials=trials,
        successes=successes,
        lower=lower,
        upper=upper,
        weight=weight,
        baseline=best_baseline(users, weight),
    )
