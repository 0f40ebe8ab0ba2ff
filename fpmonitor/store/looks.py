"""Which look at the users of a database it is: the first one has tests of its own.

A look is a state of the data: whatever is asked of the same users is one look. It is noted before
anything is answered, so that a look that was cut short, or that nobody saw, is one as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fpmonitor.policy import Look
    from fpmonitor.store.database import Database

_EVERY = "every"  # of databases that earlier versions looked at, by tests for every look
_PAST = "past"


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
    database.run("looks/note", state=_PAST if noted else state)
    return "later" if noted else "first"
