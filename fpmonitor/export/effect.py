"""What a list buys: the candidates that stay readable under some controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.export.controls import HIDING, effect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fpmonitor.export.controls import Control


def left_readable(
    apis: Iterable[str],
    controls: Iterable[Control],
    absent: frozenset[str] = frozenset(),
    means: Callable[[str], str] = str,
) -> tuple[str, ...]:
    """Return the APIs that still distinguish users under the controls, sorted.

    `means` says what products call them.

    An API that is removed or constant has one value for all users, and so has one that is
    randomised, read as one shared token: omitting it leaves the same groups of users. A coarsened
    API counts as it was. Merging values can only lower the exposure, so that this errs to the safe
    side.
    """
    controls = tuple(controls)
    return tuple(
        sorted(api for api in set(apis) if effect_of(means(api), controls, absent) not in HIDING)
    )
