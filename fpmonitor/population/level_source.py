"""Users by what components show at each of their levels."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import UndecidableError
from fpmonitor.population.memory import CodeTable, MemorySource, joined_kinds
from fpmonitor.population.snapshot import check_values_kept
from fpmonitor.store.snapshot import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.population.levels import Component, Value
    from fpmonitor.population.population import Population


class LevelSource(MemorySource):
    """Users by what components show; `declared` are the levels at which all show declared values.

    By the name of the component: see `Component.declared`.
    """

    declared: Mapping[str, tuple[int, ...]] = MappingProxyType({})


def level_source(users: Population, components: Sequence[Component]) -> LevelSource:
    """Return users with an API for each level of some components, `screen=2`, as far as it goes.

    Args:
        users: Whom the levels are shown of, with their values.
        components: With APIs called as in their log.

    Raises:
        InputError: Values that are kept by their digest only.
        UndecidableError: The rows are not in memory.
    """
    apis = [api for component in components for api in component.apis]
    if not all(level.raw for component in components for level in component.levels):
        check_values_kept(users.snapshot, "--levels")
    if users.selected is None and not users.snapshot.in_memory(len(apis)):
        raise UndecidableError(
            "levels: the users do not fit into memory", hint="ask of a window of fewer users"
        )
    kinds, values = zip(*(kinds_of(users, component) for component in components), strict=True)
    # Equal rows once, before each level is made of them.
    rows = CodeTable(kinds, tuple(map(len, values)), np.ones(users.users, dtype=np.int64)).merged(
        range(len(kinds))
    )
    columns = {
        f"{component.name}={level}": codes[merged]
        for component, found, merged in zip(components, values, rows.columns, strict=True)
        for level, codes in _codes_by_level(component, found)
    }
    source = LevelSource([*columns], [*columns.values()], rows.weights)
    source.declared = {
        component.name: tuple(_declared_levels(users, component, found))
        for component, found in zip(components, values, strict=True)
    }
    return source


def _declared_levels(
    users: Population, component: Component, values: list[tuple[Value, ...]]
) -> Iterator[int]:
    """Yield the levels at which values of users are shown as declared ones."""
    coarse = [
        level
        for level in range(max(component.least, 1), component.most + 1)
        if component.declared(level) is not None
    ]
    if not coarse:
        return
    none = [{ABSENT, *_undefined(users, api)} for api in component.apis]
    codes = [
        (code, known)
        for each in values
        for code, known in zip(each, none, strict=True)
        if isinstance(code, int)
    ]
    # An error, or a token of what is masked: of those there may be any number.
    has_others = any(code not in known for code, known in codes)
    for level in coarse:
        # Sizes show what is no value as it is, so they count no absent ones among their values.
        if not (codes if component.levels[-level].sizes else has_others):
            yield level


def _undefined(users: Population, api: str) -> Iterator[int]:
    shown = users.shown_values(api).items()
    return (code for code, (status, _) in shown if status == "undefined")


def kinds_of(
    users: Population, component: Component
) -> tuple[NDArray[np.intp], list[tuple[Value, ...]]]:
    """Position of the values of each user of a component among all there are, and these."""
    kinds, codes = joined_kinds([users.column(api) for api in component.apis])
    texts = [users.values(api) for api in component.apis]
    return kinds, [
        tuple(text_by_code.get(code, code) for text_by_code, code in zip(texts, each, strict=True))
        for each in codes
    ]


def _codes_by_level(
    component: Component, values: list[tuple[Value, ...]]
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield what each level, from fine to coarse, makes of each kind: equal codes look alike."""
    coarser = np.arange(len(values))
    for place, level in enumerate(component.levels):
        # Made of what the finer level shows, never of the values: so it cannot tell more.
        shown = [level.shown(each) for each in values]
        values = [*dict.fromkeys(shown)]
        code = {each: number for number, each in enumerate(values)}
        coarser = np.array([code[each] for each in shown], dtype=np.intp)[coarser]
        yield len(component.levels) - place, coarser
