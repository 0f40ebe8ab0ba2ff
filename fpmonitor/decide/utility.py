"""The recommended set: of all allowed API sets the one of the greatest utility."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np
import scipy

from fpmonitor.decide.search import ALL_SETS, Sought
from fpmonitor.errors import InputError

_INFEASIBLE = 2  # as the solver calls it
_HEAVIEST = 1e300  # of a weight: sums stay finite, and decision files hold no more


def recommend(
    allow: Iterable[Collection[str]],
    *,
    weights: Mapping[str, float] | None = None,
    exposure: Callable[[Sequence[tuple[str, ...]]], Sequence[float]] | None = None,
) -> tuple[str, ...]:
    """Choose the allowed set of the greatest total weight; the empty one where none is allowed.

    Of equal weights the set of the least exposure wins, then the one with more APIs, then the first
    in alphabetical order. Weights are not negative, so the best set is one of `allow`.

    Args:
        allow: Maximal allowed sets. When the list is complete, no allowed set has a greater weight.
        weights: Utility of each API, finite and not negative; 1 where not named.
        exposure: Tells the exposure of sets, the highest that it may be; null where nobody knows.
    """
    weight_of = checked_weights(weights)
    weight_by_set = {
        apis: math.fsum(weight_of.get(api, 1.0) for api in apis)
        for apis in (tuple(sorted(set(apis))) for apis in allow)
        if apis
    }
    most = max(weight_by_set.values(), default=0.0)
    tied = [apis for apis, weight in weight_by_set.items() if weight == most]
    if not tied:
        return ()
    exposed = [0.0] * len(tied) if exposure is None or len(tied) == 1 else exposure(tied)
    ranked = zip(exposed, (-len(apis) for apis in tied), tied, strict=True)
    return min(ranked)[-1]


def weight_bound(
    candidates: Sequence[str],
    refused: Sequence[Collection[str]],
    sought: Sought = ALL_SETS,
    *,
    seconds: float = 5.0,
) -> float:
    """Weight that no allowed set exceeds: what a search that was cut short may have missed.

    An allowed set contains none of the `refused` sets (those proven not allowed). The greatest
    weight under these conditions is a whole-number programme; when it is not solved in time, its
    bound so far is returned, which errs high.

    Args:
        candidates: All APIs that a set may hold.
        refused: Sets proven not allowed: the blocked and the undecided ones.
        sought: What every set must hold, and what sets are worth; of any size.
        seconds: Wall time after which the bound so far is taken.
    """
    weight_of = checked_weights(sought.weights)
    gain = np.array([weight_of.get(api, 1.0) for api in candidates])
    brought = {api: {*sought.along([api])} - {api} for api in candidates}
    rows = _conditions(candidates, refused, brought)
    if not rows:
        return float(gain.sum())
    holds = scipy.sparse.csr_array(
        (
            [value for _, values, _ in rows for value in values],
            [column for columns, _, _ in rows for column in columns],
            [0, *accumulate(len(columns) for columns, _, _ in rows)],
        ),
        shape=(len(rows), len(candidates)),
    )
    solved = scipy.optimize.milp(
        -gain,
        integrality=np.ones(len(candidates)),
        bounds=scipy.optimize.Bounds(
            [float(api in sought.must) for api in candidates], np.ones(len(candidates))
        ),
        constraints=scipy.optimize.LinearConstraint(holds, ub=[most for *_, most in rows]),
        options={"time_limit": seconds},
    )
    # No set holds all of `must` and no refused one.
    if solved.status == _INFEASIBLE:
        return 0.0
    # The dual bound, not the best set found: stopped early, the one errs high, the other low.
    bound = solved.mip_dual_bound
    return float(gain.sum() if bound is None else min(gain.sum(), -bound))


def _conditions(
    candidates: Sequence[str],
    refused: Sequence[Collection[str]],
    brought: Mapping[str, Collection[str]],
) -> list[tuple[list[int], list[int], int]]:
    """Columns, their factors, and the most that their sum may be, of each condition on a set."""
    place = {api: column for column, api in enumerate(candidates)}
    rows = [([place[api], place[one]], [1, -1], 0) for api in candidates for one in brought[api]]
    for apis in refused:
        if place.keys() >= set(apis):
            # What others bring along says nothing more: a programme that may leave out a coarser
            # level for nothing would find a bound that is none.
            finest = {*apis}.difference(*(brought[api] for api in apis))
            columns = [place[api] for api in sorted(finest)]
            rows.append((columns, [1] * len(columns), len(columns) - 1))
    return rows


def checked_weights(weights: Mapping[str, float] | None) -> Mapping[str, float]:
    """Return the weights, none where null.

    Raises:
        InputError: One is negative, not a number, or so large that sums overflow.
    """
    for api, weight in (weights or {}).items():
        if not 0 <= weight <= _HEAVIEST:
            raise InputError(f"weight of {api}: must be from 0 to {_HEAVIEST:g}, got {weight}")
    return weights or {}
