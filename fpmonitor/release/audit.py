"""Audit of a release: the attacks on it, what they found, and what that means in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl

from fpmonitor.errors import InputError
from fpmonitor.policy import DOWN, UP, as_written, check_share, rounded
from fpmonitor.release.attacks import (
    MAX_HASH_BITS,
    AttackResult,
    attack_counts,
    attack_groups,
    hash_shares,
)
from fpmonitor.release.exclusion import Boxes, Downcoding, Linkage, downcode, link
from fpmonitor.release.histogram import Release, group_of_users, with_absent
from fpmonitor.release.singling_out import best_baseline
from fpmonitor.results import Members, Result
from fpmonitor.store.snapshot import SnapshotTable, read_codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.release.sensitive import SensitiveAttribute
    from fpmonitor.store.database import Database

WEIGHT = "weight"
# Of a row that a table gives no probability: attacks divide by weights.
_SMALLEST = 1e-300
_QUANTILES = {"least": 0.0, "median": 0.5, "largest": 1.0}
_DELTA = 0.05  # that the verdict is wrong
_ATTEMPTS = 20  # of which one finds a user with probability 0.9999
_HEADROOM_BITS = 7  # counts compose to a predicate of weight 2^-7 / n, with the baseline 0.8 %


Verdict = Literal["singles out", "gives values away", "within chance", "could not be tested"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionAudit(Members):
    """What the attack on a release achieves if fresh records come from one distribution."""

    JSON: ClassVar[str] = "distribution verdict low_weight_share predicate_weights attack"

    distribution: str  # Of a fresh record, which weights of predicates are probabilities of.
    # Share of the rows on whose users a predicate of 1 in the row's size is of low weight.
    low_weight_share: float
    predicate_weights: Mapping[str, float]  # `least`, `median` and `largest` of such predicates.
    attack: AttackResult  # Hash predicates on rows of the release.

    @property
    def verdict(self) -> Verdict:
        """What follows: where no predicate is of low weight, nothing was tested."""
        if self.attack.singles_out:
            return "singles out"
        return "within chance" if self.low_weight_share else "could not be tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseAudit(Members):
    """How far a release lets a reader isolate users by predicates of low weight.

    Notes:
        Singling out, Definition 6.3: `k_max`, the most records that a predicate of the release
        holds.
    """

    JSON: ClassVar[str] = (
        "users k_max weight baseline verdict singles_out=worst.attack.singles_out distributions "
        "downcoding linkage sensitive counts in_plain_words"
    )

    users: int  # `n`, users that the release was made of.
    k_max: int  # Users whom the largest row stands for.
    weight: float  # Largest weight of a predicate that counts as low.
    baseline: float  # Success without any release at that weight.
    # The attack on the release by each distribution, the worst first.
    distributions: tuple[DistributionAudit, ...]
    counts: tuple[AttackResult, ...]  # For comparison, attacks on exact counts of the same data.
    downcoding: Downcoding  # What rows tell of cells that others hide.
    linkage: tuple[Linkage, ...]  # What is learnt of each API by who knows all others, most first.
    sensitive: SensitiveAttribute | None  # Of the attribute that the manifest names; null without.

    @property
    def worst(self) -> DistributionAudit:
        """The distribution by which the release does worst."""
        return self.distributions[0]

    @property
    def verdict(self) -> Verdict:
        """The worst of all: by a distribution, of hidden cells, of a sensitive attribute."""
        if self.worst.attack.singles_out:
            return "singles out"
        if self.downcoding.found or (self.sensitive is not None and self.sensitive.gives_away):
            return "gives values away"
        return self.worst.verdict

    @property
    def attacks(self) -> tuple[AttackResult, ...]:
        """All attacks, the worst on the release first."""
        return (*(one.attack for one in self.distributions), *self.counts)

    @property
    def in_plain_words(self) -> str:
        """One paragraph: what singling out means here, and what was found."""
        worst = self.worst
        lower, upper = (
            f"{rounded(100 * as_written(limit), away):f}"
            for limit, away in ((worst.attack.lower, DOWN), (worst.attack.upper, UP))
        )
        said = {
            "singles out": "The release lets its readers single out users in this sense.",
            "gives values away": f"The release gives values away: {self._given_away}.",
            "within chance": "That is within the limits of chance. These attacks do not show that "
            "readers can single out users; they do not prove that none can.",
            "could not be tested": "No row has a low weight by any of these distributions, so that "
            "nothing could be tested. That does not mean safety.",
        }[self.verdict]
        return (
            "To single somebody out is to find a description of exactly one of the "
            f"{self.users:,} users that is too rare to fit one by luck. A "
            f"description that fits one person in {1 / self.weight:,.0f} fits exactly one of these "
            f"users by luck with a probability of {100 * self.baseline:.2g} %. How common a "
            f"description is was measured in {len(self.distributions)} ways; the worst is by "
            f"{worst.distribution}. With the release in "
            f"hand, {100 * worst.attack.success:.3g} % of the attempts succeeded (between "
            f"{lower} and {upper} %). {said}"
        )

    @property
    def _given_away(self) -> str:
        if self.downcoding.found:
            share = f"{100 * self.downcoding.found:.3g} %"
            return f"other rows tell a hidden value of {share} of the users"
        named = "" if self.sensitive is None else self.sensitive.api
        return f"all users of some class have one value of {named}"


def audit_release(
    groups: NDArray[np.int64],
    words: NDArray[np.uint64],
    group_weights: Mapping[str, NDArray[np.float64]],
    boxes: Boxes,
    *,
    sensitive: SensitiveAttribute | None = None,
    weight: float | None = None,
    trials: int = 1000,
    rng: np.random.Generator,
) -> ReleaseAudit:
    """Run the attacks on a release and on exact counts of the data behind it.

    Args:
        groups: int64, shape (users,): row of the release that stands for each user, -1 for none.
        words: uint64, same shape: a word per user that equal records share.
        group_weights: For each distribution of a fresh record, in words: float64, shape (rows,),
            the probability that it belongs to the row.
        boxes: Which values each row allows.
        sensitive: What the table tells of the attribute that its manifest names.
        weight: Limit of the weight of a predicate; `1 / (100 n)` when left out.
        trials: Runs of each attack; of those on counts a tenth, because they read all users each
            time.
        rng: Draws groups and hash functions.
    """
    users = len(groups)
    limit = 1 / (100 * users) if weight is None else weight
    # The probability that a verdict is wrong is shared by the distributions.
    delta = _DELTA / len(group_weights)
    found = [
        _by_distribution(name, groups, words, weights, limit, trials=trials, rng=rng, delta=delta)
        for name, weights in group_weights.items()
    ]
    bits = min(math.ceil(math.log2(users)) + _HEADROOM_BITS, MAX_HASH_BITS)
    counts = [
        attack_counts(
            words,
            bits=bits,
            trials=max(trials // 10, 1),
            rng=rng,
            disguised=disguised,
            attempts=attempts,
        )
        for disguised, attempts in ((False, 1), (True, 1), (False, _ATTEMPTS))
    ]
    return ReleaseAudit(
        users=users,
        k_max=int(np.bincount(groups[groups >= 0]).max()),
        weight=limit,
        baseline=best_baseline(users, limit),
        distributions=tuple(sorted(found, key=_badness, reverse=True)),
        counts=tuple(counts),
        downcoding=downcode(boxes),
        linkage=link(boxes, users=trials, rng=rng),
        sensitive=sensitive,
    )


def _badness(one: DistributionAudit) -> tuple[bool, bool, float]:
    return one.attack.singles_out, one.low_weight_share > 0, one.attack.success


def _by_distribution(
    name: str,
    groups: NDArray[np.int64],
    words: NDArray[np.uint64],
    weights: NDArray[np.float64],
    limit: float,
    *,
    trials: int,
    rng: np.random.Generator,
    delta: float,
) -> DistributionAudit:
    attack = attack_groups(
        groups, words, weights, weight=limit, trials=trials, rng=rng, delta=delta
    )
    sizes = np.bincount(groups[groups >= 0], minlength=len(weights))
    filled = sizes > 0
    predicates = (weights / np.maximum(sizes, 1))[filled]
    unconstrained = hash_shares(sizes[filled], weights[filled], weight=limit)
    quantiles = np.quantile(predicates, [*_QUANTILES.values()]).tolist()
    return DistributionAudit(
        distribution=name,
        low_weight_share=float(np.mean(unconstrained * sizes[filled] >= 1)),
        predicate_weights=dict(zip(_QUANTILES, quantiles, strict=True)),
        attack=replace(attack, attack=f"{attack.attack}; weights by {name}"),
    )


def weights_of_rows(groups: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
    """Estimate the probability that a fresh record belongs to each row of a release.

    `(users of the row + 1) / (users + 1)`, never 0. Of the users that a release was made of, the
    estimate is too high for rows that were chosen for them; take other users where there are some.

    Args:
        groups: int64, shape (users,): row of each user, -1 for none.
        rows: Rows of the release.

    Raises:
        InputError: No user.
    """
    if not len(groups):
        raise InputError("no user to estimate weights from")
    counts = np.bincount(groups[groups >= 0], minlength=rows)
    weights: NDArray[np.float64] = (counts + 1) / (len(groups) + 1)
    return weights


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsAudit(Result):
    """How many users a table of their records under pseudonyms singles out, all at once."""

    apis: tuple[str, ...]  # Columns of the table.
    users: int  # `n`, users with a row.
    distribution: str  # Of a fresh record, which weights of predicates are probabilities of.
    # weight, baseline: Largest weight of a predicate, and its largest success without the table.
    weight: float
    baseline: float
    # Share of the users whom the predicate "has these values" isolates, and is of low weight.
    isolated: float


def audit_records(
    present: pl.DataFrame,
    weights: NDArray[np.float64],
    *,
    distribution: str,
    weight: float | None = None,
) -> RecordsAudit:
    """Single users out by the rows of a table of their records under pseudonyms.

    Args:
        present: A row for each user, a text column for each API.
        weights: float64, shape (users,): probability that a fresh record has the values of the row.

    Notes:
        Singling out, Claim 4.8: a function of each record that has enough bits, published in any
        order, gives a predicate for each record at once. In print the bits are `x_i[j]` for
        `x_j[i]`.
    """
    users = len(present)
    limit = 1 / (100 * users) if weight is None else weight
    check_share("weight", limit)
    alone = present.select(pl.len().over(present.columns) == 1).to_series().to_numpy()
    return RecordsAudit(
        apis=tuple(present.columns),
        users=users,
        distribution=distribution,
        weight=limit,
        baseline=best_baseline(users, limit),
        isolated=float(np.mean(alone & (weights <= limit))),
    )


def product_weights(rows: pl.DataFrame, values: pl.DataFrame) -> NDArray[np.float64]:
    """Probability of each row of a table for a record of independent values.

    Args:
        rows: A text column for each API; a suppressed cell, null, can be anything.
        values: Of the users whose shares are the probabilities, as in `histogram.group_of_users`; a
            value that nobody has counts as that of one more user.
    """
    users = with_absent(values)
    weights = np.ones(len(rows))
    for api in values.columns:
        had, times = users[api].unique(maintain_order=True), users[api].unique_counts()
        counts = rows[api].replace_strict(had, times, default=1).to_numpy()
        weights *= np.where(rows[api].is_null().to_numpy(), 1.0, counts / (len(users) + 1))
    return weights


def weights_by_table(release: Release, records: pl.DataFrame) -> NDArray[np.float64]:
    """Probability of each row of a release for a distribution that is given as a table.

    Args:
        records: A text column for each of its APIs, null where absent, and `weight`.

    Raises:
        InputError: A column is missing or stands for two things, or weights are negative or all
            zero.
    """
    apis = release.manifest.policy.apis
    if WEIGHT in apis:
        raise InputError(f"distribution: an API called {WEIGHT!r} would be taken for the weights")
    if missing := sorted({*apis, WEIGHT} - set(records.columns)):
        raise InputError(f"distribution: no column {missing[0]!r}", hint="a column for each API")
    # What is no number becomes negative, which is refused below.
    weights = records[WEIGHT].cast(pl.Float64, strict=False).fill_null(-1.0).to_numpy()
    # Not a number fails every comparison.
    if not (len(weights) and (weights >= 0).all() and 0 < weights.sum() < math.inf):
        raise InputError("distribution: weights must be numbers of at least 0, not all 0")
    groups = group_of_users(release, records.select(pl.col(apis).cast(pl.String)))
    hit = groups >= 0
    sums = np.bincount(groups[hit], weights=weights[hit], minlength=len(release.table))
    return np.asarray(np.maximum(sums / weights.sum(), _SMALLEST), dtype=np.float64)


def record_words(database: Database, snapshot: SnapshotTable) -> NDArray[np.uint64]:
    """Word per user from the values of all APIs, uint64; equal records share it."""
    columns: Sequence[NDArray[Any]] = read_codes(database, snapshot, snapshot.apis)
    frame = pl.DataFrame({f"c{i}": codes for i, codes in enumerate(columns)})
    return frame.hash_rows().to_numpy()
