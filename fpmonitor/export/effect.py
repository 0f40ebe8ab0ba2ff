"""What a list buys: the candidates that stay readable under some controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.export.controls import HIDING, effect_of
from fpmonitor.vocabulary import base_of, same_information

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from fpmonitor.export.controls import Control


def left_readable(
    apis: Iterable[str],
    controls: Iterable[Control],
    absent: frozenset[str] = frozenset(),
    means: Callable[[str], str] = str,
) -> tuple[str, ...]:
    """Return the APIs that still distinguish users under the controls, sorted.

    `means` says what products call them. One that is hidden still counts if what it tells stays
    readable by another name, of an API that is not among them.

    An API that is removed or constant has one value for all users, and so has one that is
    randomised, read as one shared token: omitting it leaves the same groups of users. A coarsened
    API counts as it was, and so does one of which another name may tell only a part: merging values
    can only lower the exposure, so that this errs to the safe side. `left_unchanged` errs to the
    other.
    """
    controls, apis = tuple(controls), set(apis)
    others = elsewhere(apis, means)
    return tuple(
        sorted(api for api in apis if readable([means(api), *others[api]], controls, absent))
    )


def left_unchanged(
    apis: Iterable[str],
    controls: Collection[Control],
    absent: frozenset[str] = frozenset(),
    means: Callable[[str], str] = str,
) -> tuple[str, ...]:
    """Return the APIs that tell as much under the controls as without them, sorted.

    All that stays readable tells at least what these tell, and at most what `left_readable` does.
    """
    return tuple(
        sorted(
            api
            for api in apis
            if effect_of(means(api), controls, absent) not in HIDING
            and not any(control.effect_on(means(api)) == "coarsened" for control in controls)
        )
    )


def elsewhere(apis: Collection[str], means: Callable[[str], str] = str) -> dict[str, list[str]]:
    """Return for each of some APIs the other ones that tell what it tells, sorted."""
    meant = {api: means(api) for api in apis}
    looked_at = set(map(base_of, meant.values()))
    return {
        api: [name for name in same_information(meaning) if base_of(name) not in looked_at]
        for api, meaning in meant.items()
    }


def readable(
    names: Iterable[str], controls: Iterable[Control], absent: frozenset[str]
) -> list[str]:
    """Those of some APIs, as products call them, that no control hides."""
    controls = tuple(controls)
    return [name for name in names if effect_of(name, controls, absent) not in HIDING]
