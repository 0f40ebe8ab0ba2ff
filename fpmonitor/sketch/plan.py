"""What a sketch is to keep, and how it is kept of words in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.value_sample import LAST_LEVEL, planned_level
from fpmonitor.sketch.file import MAX_ENTRIES, Sketch, sketch_of_part
from fpmonitor.sketch.words import SketchKey, is_kept

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fpmonitor.cluster.parts import UserPart
    from fpmonitor.sketch.kept import Tally

MOST_SETS = 1000


@dataclass(frozen=True, kw_only=True)
class SketchPlan:
    """What is to be kept.

    Attributes:
        key: Keeps values.
        sets: API sets, each sorted, without repetition.
        entries: Values to keep at most per set, from which the share of the values follows; or
            None.
        level: The share is 2^-level, where it is given beforehand; or None.

    Raises:
        InputError: No sets or an empty one, too many, or not exactly one of `entries` and `level`.
    """

    key: SketchKey
    sets: tuple[tuple[str, ...], ...]
    entries: int | None = None
    level: int | None = None

    def __post_init__(self) -> None:
        if not self.sets or not all(self.sets) or len(self.sets) > MOST_SETS:
            raise InputError(f"sketch: name 1 to {MOST_SETS:,} sets of APIs")
        object.__setattr__(self, "sets", tuple(sorted({tuple(sorted({*s})) for s in self.sets})))
        if (self.entries is None) == (self.level is None):
            raise InputError("sketch: give the share of the values, or the entries to keep")
        if self.entries is not None and not 0 < self.entries <= MAX_ENTRIES:
            raise InputError(f"entries: must be 1 to {MAX_ENTRIES:,}, got {self.entries:,}")
        if self.level is not None and not 0 <= self.level <= LAST_LEVEL:
            raise InputError(f"share: must be 1, 1/2, 1/4, ... or 1/{1 << LAST_LEVEL:,}")

    @property
    def apis(self) -> tuple[str, ...]:
        """All APIs of the sets, sorted."""
        return tuple(sorted({api for apis in self.sets for api in apis}))

    def level_for(self, users: int) -> int:
        """Level at which the values of so many users are kept; more users never lower it."""
        if self.level is not None:
            return self.level
        return planned_level(users, self.entries or 1)

    def tally(
        self,
        columns: Mapping[str, NDArray[np.uint64]],
        level: int,
        tallies: Sequence[Tally],
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Add users, from a column of words per API, to the tallies of the sets.

        Sets are sorted, so that one that begins as the set before goes on from there. `counts` are
        the users of each row, one by default.
        """
        before: tuple[str, ...] = ()
        states: list[NDArray[np.uint64]] = []
        for apis, tally in zip(self.sets, tallies, strict=True):
            shared = 0
            while before[: shared + 1] == apis[: shared + 1]:
                shared += 1
            del states[shared:]
            for api in apis[shared:]:
                states.append(self.key.chained([columns[api]], states[-1] if states else None))
            is_in = is_kept(states[-1], level)
            tally.add(states[-1][is_in], None if counts is None else counts[is_in], level=level)
            before = apis

    def sketch(
        self, tallies: Sequence[Tally], users: int, *, view: str, part: UserPart | None
    ) -> Sketch:
        """Return the sketch of what was added up.

        Raises:
            UndecidableError: There are no users.
        """
        if not users:
            raise UndecidableError("no users to make a sketch of")
        level = self.level_for(users)
        return sketch_of_part(
            key=self.key.id,
            users=users,
            entries=self.entries,
            view=view,
            part=part,
            sets=[tally.kept(level) for tally in tallies],
        )


def share_level(text: str) -> int:
    """Read a share of the values, as 1/1024; its level.

    Raises:
        InputError: It is none of 1, 1/2, 1/4 and so on.
    """
    one, _, parts = text.strip().partition("/")
    number = int(parts) if parts.isascii() and parts.isdigit() and len(parts) < 20 else 0
    if text.strip() == "1":
        number = 1
    if one.strip() != "1" or number < 1 or number & (number - 1) or number > 1 << LAST_LEVEL:
        raise InputError(
            f"share: {text!r} is not a share of the values",
            hint="1, 1/2, 1/4 and so on, such as 1/1024",
        )
    return number.bit_length() - 1
