"""Collectors of what libraries return, which a site logs beside members of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.records import RecordCollector, value_text
from fpmonitor.collectors.suspects import refuse_suspects
from fpmonitor.vocabulary import meaning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Scan
    from fpmonitor.logs.log_file import LogFile

_FIELDS = ("user", "time", "source")


class ResultCollector(RecordCollector):
    """Reads results of a library; of what lies beside them (`ua`), members are kept.

    Those, that is, by which the vocabulary or the user means an API, under their own names.
    """

    own_members: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self._said: Mapping[str, str] = {}
        self._beside: tuple[str, ...] = ()

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log.

        Raises
        ------
        InputError
            What lies beside a result looks like a time, and none is named; or no record says
            anything of an API.
        """
        self._said = {**dict.fromkeys(column_map.ignore, ""), **column_map.apis}
        first = [record for record in self.first(log) if isinstance(record, dict)]
        names = {name for record in first for name in record}
        names -= self.own_members | {*map(column_map.name_of, _FIELDS)}
        self._beside = tuple(sorted(names))
        sample = _texts(first, self._beside)
        refuse_suspects(log, sample, names - column_map.ignore, column_map, {"time"})
        return super().scan(log, column_map)

    def is_beside(self, name: str) -> bool:
        """Whether a member is an API that is not the library's."""
        return name not in self.own_members and bool(meaning(name, self._said))

    def values_beside(self, *objects: Mapping[str, Any]) -> dict[str, str]:
        """Values of members that are APIs, of some objects around what the library returned."""
        return {
            name: value_text(value)
            for members in objects
            for name, value in members.items()
            if isinstance(value, str | int | float) and self.is_beside(name)
        }


def _texts(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[str]]:
    """Return texts and numbers of members, by their names."""
    found = {name: [record.get(name) for record in records] for name in names}
    return {
        name: [str(value) for value in values if isinstance(value, str | int | float)]
        for name, values in found.items()
    }
