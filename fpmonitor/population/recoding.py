"""What a view changes: for each API what a code becomes, and which users are left out.

The map is made once from what the values of a snapshot say, whoever keeps the rows: rows in memory
are recoded by `Recoding.column`, an engine says the same in its own language.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.errors import UndecidableError
from fpmonitor.store.snapshot import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fpmonitor.population.browsers import BrowserGroups


def own_codes_of_absent(codes: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Give each user who is absent a code that nobody else has, int64."""
    absent = np.flatnonzero(codes == ABSENT)
    own = codes.astype(np.int64)
    own[absent] = own.max(initial=0) + 1 + np.arange(len(absent))
    return own


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Recode:
    """What becomes of the codes of one API.

    A row of a group in `randomised` whose code is not in `fixed` gets the token of its browser
    family, `tokens + 1 + family`; any other code `c` becomes `codes[c]`.
    """

    codes: NDArray[np.int64] | None  # int64, one entry a code; None leaves codes as they are.
    randomised: NDArray[np.bool_]  # bool, one entry a browser group.
    fixed: NDArray[np.int64]  # int64, codes of what is no value: absent, undefined, an error.
    tokens: int  # A number above all codes.


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Recoding:
    """What a view changes in the rows of a snapshot."""

    groups: BrowserGroups  # The rows by browser.
    # API -> what becomes of its codes; the other APIs stay as they are.
    changes: Mapping[str, Recode]
    dropped: NDArray[np.bool_]  # bool, one entry a browser group: whether its users are left out.
    description: str  # Words that name the view in digests; empty where it changes nothing.

    @property
    def users_dropped(self) -> int:
        """Number of users that are left out."""
        return int(self.groups.users[self.dropped].sum())

    def column(
        self,
        api: str,
        codes: NDArray[np.integer[Any]],
        rows: NDArray[np.intp] | slice = slice(None),
    ) -> NDArray[np.integer[Any]]:
        """Codes of an API as the view shows them, in every row; none is left out.

        Where codes are those of visits, `rows` are those of their users.
        """
        change = self.changes.get(api)
        if change is None:
            return codes
        shown = codes.astype(np.int64) if change.codes is None else change.codes[codes]
        if not change.randomised.any():
            return shown
        if self.groups.rows is None:
            raise UndecidableError("the rows of these users are not in memory")
        group = self.groups.rows[rows]
        # Errors and refusals are no noise: who has one differs from those who have a value.
        hidden = change.randomised[group] & ~np.isin(codes, change.fixed)
        families = self.groups.family.astype(np.int64)[group]
        return np.where(hidden, change.tokens + 1 + families, shown)
