"""Number of joint values that remain when only some values of overlapping parts are kept.

Source: Bravo-Hermsdorff, Busa-Fekete, Gunderson, Munoz Medina, Syed (2022), "Statistical
anonymity: Quantifying reidentification risks without reidentifying users", section 8.2.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fpmonitor.private.counts import ApiSet

# Rows may be so many times the most before they are given up: later parts exclude some.
_SLACK = 4


def chain_of_parts(
    apis: ApiSet, parts: Iterable[ApiSet], bits: Callable[[ApiSet], float]
) -> list[ApiSet]:
    """Cover a set with parts, each of which adds as little entropy as possible.

    The parts are known sets within it, with all their subsets, and every single API; `bits` is the
    entropy of a part, 0 for no API.
    """
    chain: list[ApiSet] = []
    covered: frozenset[str] = frozenset()
    offers = sorted(parts)
    while len(covered) < len(apis):

        def growth(part: ApiSet, known: frozenset[str] = covered) -> tuple[float, int, ApiSet]:
            shared = tuple(api for api in part if api in known)
            fresh = len(part) - len(shared)
            # Of equal growth the larger part, then by name: the chain is always the same.
            return (bits(part) - bits(shared)) / fresh, -len(part), part

        best = min((part for part in offers if not covered.issuperset(part)), key=growth)
        chain.append(best)
        covered |= frozenset(best)
    return chain


def count_joined(
    part_tuples: Sequence[tuple[ApiSet, Sequence[tuple[str, ...]]]], most: int
) -> int | None:
    """Count the joint values whose projections are all kept; None above `most`.

    `part_tuples` has the parts and their kept tuples, in an order in which each is joined to those
    before.
    """
    covered: list[str] = []
    rows: list[tuple[str, ...]] = [()]
    for apis, tuples in part_tuples:
        shared = [api for api in apis if api in covered]
        fresh = [api for api in apis if api not in covered]
        further: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
        for tokens in tuples:
            token_by_api = dict(zip(apis, tokens, strict=True))
            key = tuple(token_by_api[api] for api in shared)
            further[key].append(tuple(token_by_api[api] for api in fresh))
        places = [covered.index(api) for api in shared]
        rows = [
            row + more
            for row in rows
            for more in further.get(tuple(row[place] for place in places), ())
        ]
        covered += fresh
        if len(rows) > _SLACK * most:
            return None
    return len(rows) if len(rows) <= most else None
