"""Local suppression: single cells are withheld until every published row has at least k users.

A pattern is the set of APIs that a row keeps. Patterns are tried from the largest to the smallest;
each publishes the groups of at least k of the users that no earlier pattern has published.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from fpmonitor.errors import InputError, UndecidableError

MAX_APIS = 10
USERS = "users"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Suppression:
    """A table in which every row has at least k users."""

    # A column per API (null: suppressed) and `users`, int64; rows in the order of `patterns`.
    table: pl.DataFrame
    # The sets of kept APIs, in the order in which they were used.
    patterns: tuple[tuple[str, ...], ...]
    withheld: int  # Users that no row stands for.
    lost_cells: int  # Suppressed cells of all users, those of withheld ones included.


def truncated_histogram(users: pl.DataFrame, apis: Sequence[str], k: int) -> Suppression:
    """Publish the values that at least `k` users share, whole; withhold all other users.

    Args:
        users: A row per user, a text column per API without nulls.
        k: Threshold, users.
    """
    return publish_patterns(_distinct(users, apis), apis, [tuple(apis)], k)


def suppress_cells(
    users: pl.DataFrame, apis: Sequence[str], k: int, *, budget: float
) -> Suppression:
    """Withhold as few cells as a greedy choice can, and users within the budget.

    Never loses more cells than dropping whole APIs would.

    Args:
        users, apis, k: As in `truncated_histogram`, at most 10 APIs.
        budget: Largest share of the users that may be withheld altogether.

    Raises:
        InputError: Too many APIs.
        UndecidableError: More users than the budget have no value of any API in common with `k - 1`
            others.
    """
    rows = _distinct(users, apis)
    if len(apis) > MAX_APIS:
        raise InputError(
            f"local suppression ranges over at most {MAX_APIS} APIs, got {len(apis)}",
            hint="release fewer APIs together, or use the histogram",
        )
    candidates = [publish_patterns(rows, apis, _greedy_patterns(rows, apis, k), k)]
    dropping = drop_apis(users, apis, k, budget=budget)
    candidates += [] if dropping is None else [dropping]
    within = [one for one in candidates if one.withheld <= budget * len(users)]
    if not within:
        share = candidates[0].withheld / len(users)
        raise UndecidableError(
            f"{100 * share:.3g} % of the users cannot be published, above the budget",
            hint="raise the budget, lower k, or make values coarser by --what-if",
        )
    return min(within, key=lambda one: one.lost_cells)


def drop_apis(
    users: pl.DataFrame, apis: Sequence[str], k: int, *, budget: float
) -> Suppression | None:
    """Drop whole APIs, as few cells as possible, until the withheld users are within the budget.

    Arguments as in `suppress_cells`; None where even single APIs withhold more.
    """
    rows = _distinct(users, apis)
    best: tuple[int, tuple[str, ...]] | None = None
    for shown in _subsets(apis):
        withheld = int(rows.filter(_group_size(shown) < k)[USERS].sum())
        lost = len(users) * (len(apis) - len(shown)) + withheld * len(shown)
        if withheld <= budget * len(users) and (best is None or lost < best[0]):
            best = (lost, shown)
    return None if best is None else publish_patterns(rows, apis, [best[1]], k)


def publish_patterns(
    rows: pl.DataFrame, apis: Sequence[str], patterns: Sequence[Sequence[str]], k: int
) -> Suppression:
    """Publish what each pattern can of the users that earlier ones have left.

    Args:
        rows: Distinct rows with `users`.
        patterns: Sets of kept APIs, none empty.
    """
    published, used, left = [], [], rows
    for pattern in patterns:
        enough = _group_size(pattern) >= k
        # Sorted, so that the same users give the same table whenever it is made again.
        groups = left.filter(enough).group_by(pattern).agg(pl.col(USERS).sum()).sort(pattern)
        if len(groups):
            missing = [pl.lit(None, pl.String).alias(api) for api in apis if api not in pattern]
            published.append(groups.with_columns(missing).select(*apis, USERS))
            used.append(tuple(pattern))
        left = left.filter(~enough)
    table = pl.concat(published) if published else rows.head(0).select(*apis, USERS)
    withheld = int(left[USERS].sum())
    starred = sum(
        int(part[USERS].sum()) * (len(apis) - len(used_pattern))
        for part, used_pattern in zip(published, used, strict=True)
    )
    return Suppression(
        table=table,
        patterns=tuple(used),
        withheld=withheld,
        lost_cells=starred + withheld * len(apis),
    )


def _greedy_patterns(rows: pl.DataFrame, apis: Sequence[str], k: int) -> list[tuple[str, ...]]:
    """All patterns, larger ones first, of equal ones that first which publishes most users."""
    patterns: list[tuple[str, ...]] = []
    left = rows
    for size in range(len(apis), 0, -1):
        gains = {
            pattern: int(left.filter(_group_size(pattern) >= k)[USERS].sum())
            for pattern in itertools.combinations(apis, size)
        }
        for pattern in sorted(gains, key=lambda one: -gains[one]):
            if gains[pattern]:
                patterns.append(pattern)
                left = left.filter(_group_size(pattern) < k)
    return patterns


def _subsets(apis: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for size in range(len(apis), 0, -1):
        yield from itertools.combinations(apis, size)


def _group_size(pattern: Sequence[str]) -> pl.Expr:
    return pl.col(USERS).sum().over(list(pattern))


def _distinct(users: pl.DataFrame, apis: Sequence[str]) -> pl.DataFrame:
    return users.group_by(list(apis)).agg(pl.len().cast(pl.Int64).alias(USERS)).sort(list(apis))
