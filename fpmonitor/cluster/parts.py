"""Parts of the users of a table, by a hash of their names that is the same everywhere."""

from __future__ import annotations

import re

import msgspec

from fpmonitor.errors import InputError

MAX_PARTS = 1 << 16
_PART = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?/([0-9]{1,5})")


class UserPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Users by the hash of their name: those in places `first` to `last` of `of`, from 1.

    Raises:
        InputError: There is no such place.
    """

    first: int
    last: int
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last <= self.of <= MAX_PARTS:
            raise InputError(
                f"part {self.first}-{self.last}/{self.of}: no such part",
                hint=f"a part is 3/16 or 2-16/16, of at most {MAX_PARTS:,}",
            )

    @classmethod
    def from_text(cls, text: str) -> UserPart:
        """Read a part, as 3/16 or 2-16/16; errors as of the type."""
        found = _PART.fullmatch(text)
        if found is None:
            raise InputError(f"{text!r} is not a part of the users", hint="such as 3/16 or 2-16/16")
        first, last, of = found.groups()
        return cls(int(first), int(last or first), int(of))

    def __str__(self) -> str:
        places = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{places}/{self.of}"

    def is_apart_from(self, other: UserPart) -> bool:
        """Whether no user can be in both."""
        return self.of == other.of and (self.last < other.first or other.last < self.first)

    def holds(self, person: str) -> str:
        """Return the condition that a user is in it, in SQL for `portable.transpile`."""
        place = f"hash_number(CAST({person} AS VARCHAR)) % {self.of}"
        return f"{place} >= {self.first - 1} AND {place} < {self.last}"
