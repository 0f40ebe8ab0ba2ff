"""What a database notes of its users and names for the tests: see docs/certificate.md.

The first look at its users has tests of its own, and the names in its first log have a price of
their own.

A look is a state of the data: whatever is asked of the same users is one look. It is noted before
anything is answered, so that a look that was cut short, or that nobody saw, is one as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fpmonitor.policy import Look
    from fpmonitor.store.database import Database

_EVERY = "every"  # of databases that earlier versions looked at, by tests for every look
_PAST = "past"


class FirstNames(NamedTuple):
    """Names in the first log that was stored, of which some may be forgotten, and how many."""

    names: frozenset[str]
    number: int

    def of(self, apis: Iterable[str]) -> int:
        """Return the number of names where all of some APIs are among them, else 0."""
        return self.number if self.names.issuperset(apis) else 0


def first_names(database: Database) -> FirstNames | None:
    """Return the names of the first log; null in databases that did not note them."""
    [(names, number)] = database.rows("looks/first_names")
    if number is None:
        return None
    # One statement of both takes 12 ms, a twelfth of a gate's time; these take 2.
    known = frozenset(name for _, name in database.rows("snapshot/apis"))
    return FirstNames(known.intersection(names or ()), number)


def note_look(database: Database) -> Look | None:
    """Note that the users are looked at; return which look it is, null where all are alike."""
    noted = [state for (state,) in database.rows("looks/noted")]
    if noted == [_EVERY]:
        return None
    if noted == [_PAST]:
        return "later"
    [numbers] = database.rows("looks/state")
    if not numbers[1]:
        return None  # nobody is there to be looked at
    state = " ".join(map(str, numbers))
    if noted == [state]:
        return "first"
    # Two states are told apart, not counted: every look but the first has the same tests.
    database.run("looks/note", state=_PAST if noted else state)
    return "later" if noted else "first"
