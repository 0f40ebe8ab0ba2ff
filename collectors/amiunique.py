"""AmIUnique and FPStalker: the wide tables of the published dumps, a row a visit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.collectors.renamed import RenamedCollector
from fpmonitor.vocabulary import aliases_of

if TYPE_CHECKING:
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.log_file import LogFile

_NO_APIS = {
    **dict.fromkeys(("counter", "updateDate", "endDate"), "a date or a number of the dump"),
    "addressHttp": "tells where the request came from",
    **dict.fromkeys(("hostHttp", "connectionHttp"), "tells the resource, not the browser"),
}


class AmiuniqueCollector(RenamedCollector):
    """Reads columns such as `userAgentHttp`; `id` names the browser, `creationDate` the time."""

    name: ClassVar[str] = "amiunique"

    def api_of_column(self, column: str) -> str | None:
        """Return the API of a column."""
        return aliases_of(self.name).get(column)

    def why_left_out(self, column: str) -> str:
        """Say what a column is by the dumps."""
        return _NO_APIS[column]

    def named(self, log: LogFile, column_map: ColumnMap) -> ColumnMap:  # noqa: ARG002 -- the base class names it
        """Complete a column map by the names of the dumps."""
        columns = {"user": "id", "time": "creationDate", **column_map.columns}
        return replace(column_map, columns=columns, ignore=column_map.ignore | _NO_APIS.keys())
