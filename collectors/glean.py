"""Firefox's `user-characteristics` ping (Glean), as a flat table of its metrics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.collectors.renamed import RenamedCollector, column_names, first_ending

from fpmonitor.logs import ColumnMap
from fpmonitor.vocabulary import api_of

if TYPE_CHECKING:
    from fpmonitor.logs import LogFile

_METRIC = re.compile(r"(?:.*[._])?characteristics[._](\w+)")
_NO_APIS = ("client_identifier", "submission_schema")


class GleanCollector(RenamedCollector):
    """Reads columns such as `metrics.quantity.characteristics_processor_count`.

    `client_identifier` names the user, `submission_timestamp` the time. Columns that are no
    characteristics, such as those about the ping itself, are left out.
    """

    name: ClassVar[str] = "glean"

    def api_of_column(self, column: str) -> str | None:
        """Give the API of a column."""
        metric = _METRIC.fullmatch(column)
        return api_of(self.name, metric[1]) if metric and metric[1] not in _NO_APIS else None

    def named(self, log: LogFile, column_map: ColumnMap) -> ColumnMap:
        """Complete a column map by the columns of the ping."""
        names = column_names(log)
        columns = {
            "user": first_ending(names, "client_identifier"),
            "time": first_ending(names, "submission_timestamp"),
        }
        found = {field: name for field, name in columns.items() if name is not None}
        foreign = {name for name in names if self.api_of_column(name) is None}
        return ColumnMap(
            {**found, **column_map.columns}, column_map.ignore | foreign, column_map.null
        )
