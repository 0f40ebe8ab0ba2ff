"""Checks of a decision that share one delta, counted in the database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fpmonitor.store.database import Database


def number_check(database: Database, *, decision: str, horizon: int, digest: str) -> int:
    """Return a check its number, from 1; data that were checked before keep theirs at no cost.

    Parameters
    ----------
    database
        The open database; the number is stored before anybody sees an answer.
    decision, horizon
        Digest of the decision, and number of checks that share its delta.
    digest
        Digest of the data that are checked.
    """
    asked: dict[str, Any] = {"decision": decision, "horizon": horizon, "digest": digest}
    known = database.rows("checks/known", **asked)
    if known:
        return int(known[0][0])
    number = int(database.rows("checks/last", **asked)[0][0]) + 1
    now = datetime.now(UTC).replace(tzinfo=None)
    database.run("checks/add", **asked, number=number, checked_at=now)
    return number
