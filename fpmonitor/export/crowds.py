"""What a visitor may compare with: values, and combinations, that at least k users share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowds:
    """What at least k users share, and how many users there are."""

    users: int
    unit: Unit
    # API -> values that at least k users share: `v` and the text, or `u` for undefined. An API that
    # cannot be compared is not there.
    values: Mapping[str, Sequence[str]]
    why: Mapping[str, str]  # API that cannot be compared -> why.
    # The recommended set, and the largest allowed ones, of APIs that can be compared.
    sets: Sequence[tuple[str, ...]]
    # For each of them the combinations of values that at least k users share.
    tuples: Sequence[Sequence[tuple[str, ...]]]
