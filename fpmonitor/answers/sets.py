"""API sets as questions name them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from fpmonitor.errors import InputError

_MOST_SETS = 1_000_000  # of which each takes a millisecond or so
_MOST_SUPPORT = 10**300  # floats end at 10^308, and bounds multiply it


def check_named_sets(sets: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Return API sets; a name is no set, though Python reads it as one of letters.

    Raises:
        InputError: A name where a set is meant, or one set where several are.
    """
    # A text is a sequence of texts to Python, and would be a set per letter.
    if isinstance(sets, str):
        raise InputError(f"sets: did you mean [[{sets!r}]]?")
    wanted = list(sets)
    if any(isinstance(apis, str) for apis in wanted):
        names = [apis if isinstance(apis, str) else [*apis] for apis in wanted]
        raise InputError(
            f"sets: did you mean [{names}], one set, or {[[name] for name in names]}, each alone?"
        )
    return wanted


def sorted_sets(sets: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Sort each API set and drop repetitions.

    Raises:
        InputError: One is empty.
    """
    wanted = [tuple(sorted(set(apis))) for apis in sets]
    if not all(wanted):
        raise InputError("sets: name at least one API for each set")
    return wanted


def sets_up_to(size: int, apis: Sequence[str]) -> list[tuple[str, ...]]:
    """All sets of some APIs of one to `size`, the small ones first.

    Raises:
        InputError: They are too many.
    """
    sizes = range(1, min(size, len(apis)) + 1)
    if any(n > _MOST_SETS for n in itertools.accumulate(math.comb(len(apis), s) for s in sizes)):
        raise InputError(
            f"size: {len(apis):,} APIs have more than {_MOST_SETS:,} sets of up to {size}",
            hint="a smaller size, or fewer candidates",
        )
    return [chosen for s in sizes for chosen in itertools.combinations(apis, s)]


def declared_supports(
    supports: Sequence[int], sets: Sequence[tuple[str, ...]]
) -> Sequence[int | None]:
    """Return the declared support of each API set, null for all where none is declared.

    Raises:
        InputError: There are more or fewer than sets, or one is too large for floats.
    """
    declared: Sequence[int | None] = list(supports) or [None] * len(sets)
    if len(declared) != len(sets):
        raise InputError(f"supports: {len(declared)} given for {len(sets)} sets")
    if any(support is not None and support > _MOST_SUPPORT for support in declared):
        raise InputError("support: must be at most 10^300")
    return declared
