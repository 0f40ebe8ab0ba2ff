"""Names of APIs that come with records: a database takes so many, and each key brings so many."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fpmonitor.logs.contract import MAX_APIS

if TYPE_CHECKING:
    from collections.abc import Iterable


class ApiNames:
    """The names of a database, and how many new ones each source has brought.

    `most` is how many a source may bring.
    """

    def __init__(self, most: int, known: Iterable[str]) -> None:
        self._most = most
        self._known = set(known)
        self._brought: Counter[str] = Counter()

    def learn(self, known: Iterable[str]) -> None:
        """Take note of names that the database has."""
        self._known.update(known)

    def take(self, source: str, names: Iterable[str]) -> bool:
        """Whether a record of these names is taken; if so, its new names are counted."""
        fresh = set(names) - self._known
        if not fresh:
            return True
        if len(self._known) + len(fresh) > MAX_APIS:
            return False
        if self._brought[source] + len(fresh) > self._most:
            return False
        self._brought[source] += len(fresh)
        self._known |= fresh
        return True
