"""Values and combinations that at least k users share: what a visitor may compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from fpmonitor.answers.decide import called_as, users_meant
from fpmonitor.export.exporter import Crowds
from fpmonitor.population.snapshot import check_values_kept
from fpmonitor.store.snapshot import ABSENT
from fpmonitor.unit import check_limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.population import Population

_MOST_SETS = 12
_CHANGES = "Some browsers change it at each visit."


def shared_crowds(population: Population, decision: Decision) -> Crowds:
    """Return what at least k users share of each candidate and of the decision's sets.

    Nothing that fewer than k users have is in it, nor how many have what is.

    Args:
        population: The users of now, seen as the decision saw its own.
        decision: Its candidates, its sets, and k.
    """
    check_values_kept(population.snapshot, "a page for visitors")
    sample = decision.policy.sample
    check_limits(population.snapshot.units, rows_are_users=sample.rows_are_users)
    decision = called_as(decision, population)
    k, candidates = decision.policy.k, decision.policy.candidates
    users = users_meant(population, decision)
    masked = {*users.masked(candidates, k)}
    texts = {api: dict(_texts(users, api)) for api in candidates}
    why = {api: _CHANGES for api in candidates if api in masked}
    known = [api for api in candidates if api not in why]
    wanted = dict.fromkeys(
        tuple(api for api in apis if api in texts)
        for apis in (decision.recommended, *decision.allow)
        # A browser that changes such a value at each visit would find nobody like itself.
        if apis and not masked & {*apis}
    )
    sets = [apis for apis in wanted if len(apis) > 1][:_MOST_SETS]
    tuples = [tuple(_shared(users, texts, apis, k)) for apis in sets]
    return Crowds(
        users=users.users,
        unit=population.unit,
        values={api: tuple(one for (one,) in _shared(users, texts, [api], k)) for api in known},
        why=why,
        sets=sets,
        tuples=tuples,
    )


def _texts(users: Population, api: str) -> Iterator[tuple[int, str]]:
    """Yield code and text of values that a browser can be compared with."""
    if api not in users.snapshot.apis:
        return
    for code, (status, text) in users.shown_values(api).items():
        if status == "undefined":
            yield code, "u"
        elif status == "value" and text is not None:
            yield code, f"v{text}"


def _shared(
    users: Population, texts: Mapping[str, Mapping[int, str]], apis: Sequence[str], k: int
) -> Iterator[tuple[str, ...]]:
    """Yield the combinations that at least k users have, in the order of their texts."""
    codes = pl.DataFrame({str(at): users.column(api) for at, api in enumerate(apis)})
    names = codes.columns
    # Before a text is looked up, so that a value of fewer than k users is in no page.
    counts = codes.group_by(names).len().filter(pl.col("len") >= k)
    found = []
    for row in counts.select(names).rows():
        values = [texts[api].get(code) for api, code in zip(apis, row, strict=True)]
        if ABSENT not in row and all(value is not None for value in values):
            found.append(tuple(str(value) for value in values))
    # Several codes may be shown as one text, such as values that a view makes coarser.
    yield from sorted(set(found))
