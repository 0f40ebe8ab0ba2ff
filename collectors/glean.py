"""Firefox's `user-characteristics` ping (Glean): a flat table of its metrics, or JSON."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.records import (
    RecordCollector,
    RecordError,
    Visit,
    member,
    text_of,
    value_text,
)
from fpmonitor.collectors.renamed import RenamedCollector, column_names, first_ending
from fpmonitor.vocabulary import api_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.log_file import LogFile

_SOURCE = "glean"
# `metrics.quantity.characteristics_x` is a column, `characteristics.x` a metric of a ping.
# Of so many letters at most: a name of 64,000, `characteristics_` again and again, took 2 s.
_METRIC = re.compile(r"(?=.{1,200}\Z)(?:.*[._])?characteristics[._](\w+)")
_IDENTIFIER = "client_identifier"
_NO_APIS = (_IDENTIFIER, "submission_schema")
_OF_PING = "tells of the ping, not of the browser"
_TIMES = ("submission_timestamp", "ping_info.end_time")


class GleanCollector(RenamedCollector):
    """Reads columns such as `metrics.quantity.characteristics_processor_count`.

    `client_identifier` names the user, `submission_timestamp` the time. Columns that are no
    characteristics, such as those about the ping itself, are left out.
    """

    name: ClassVar[str] = _SOURCE

    def api_of_column(self, column: str) -> str | None:
        """Return the API of a column."""
        return _api_of_metric(column)

    def why_left_out(self, column: str) -> str:  # noqa: ARG002 -- the base class names it
        """Say that a column is no characteristic."""
        return _OF_PING

    def named(self, log: LogFile, column_map: ColumnMap) -> ColumnMap:
        """Complete a column map by the columns of the ping."""
        names = column_names(log)
        columns = {
            "user": first_ending(names, _IDENTIFIER),
            "time": first_ending(names, "submission_timestamp"),
        }
        found = {field: name for field, name in columns.items() if name is not None}
        foreign = {name for name in names if self.api_of_column(name) is None}
        named = {**found, **column_map.columns}
        return replace(column_map, columns=named, ignore=column_map.ignore | foreign)


class GleanJsonCollector(RecordCollector):
    """Reads pings as they are sent, or rows as BigQuery exports them: metrics by their kinds.

    The metric `characteristics.client_identifier` names the user where no column is given for it,
    and `submission_timestamp` or the end of the ping the time.
    """

    name: ClassVar[str] = "glean-json"

    def recognises_record(self, record: Any) -> bool:
        """Whether the record has two or more such metrics."""
        return sum(_api_of_metric(name) is not None for name in _metrics(record)) >= 2

    def names_user(self, record: Any) -> bool:
        """Whether a record names its user."""
        return first_ending(_metrics(record), _IDENTIFIER) is not None or super().names_user(record)

    def visit(self, record: Any) -> Visit:
        """Metrics of one ping."""
        metrics = _metrics(record)
        paths = {
            api: f"metrics.{name}"
            for name, value in metrics.items()
            if (api := _api_of_metric(name)) is not None and value is not None
        }
        values = {api: value_text(metrics[path[len("metrics.") :]]) for api, path in paths.items()}
        if not values:
            raise RecordError("no characteristics of Glean")
        identifier = first_ending(metrics, _IDENTIFIER)
        times = (member(record, name) for name in _TIMES)
        return Visit(
            values,
            _SOURCE,
            text_of(metrics[identifier]) if identifier else None,
            next((text_of(time) for time in times if time is not None), None),
            not_taken=dict.fromkeys(_of_ping(record, {*metrics} - {identifier}), _OF_PING),
            paths=paths,
        )


def _of_ping(record: dict[str, Any], metrics: Iterable[str]) -> Iterator[str]:
    """Name what a ping tells beside its characteristics; its time is taken."""
    for name, value in record.items():
        inner = value if isinstance(value, dict) else {}
        names = [f"{name}.{key}" for key in inner] if inner else [name]
        if name != "metrics" and value is not None:
            yield from (path for path in names if path not in _TIMES)
    yield from (f"metrics.{name}" for name in metrics if _api_of_metric(name) is None)


def _metrics(record: object) -> dict[str, Any]:
    """Metrics of all kinds by name; a metric that was not recorded is null in BigQuery."""
    kinds = record.get("metrics") if isinstance(record, dict) else None
    if not isinstance(kinds, dict):
        return {}
    return {
        name: value
        for metrics in kinds.values()
        if isinstance(metrics, dict)
        for name, value in metrics.items()
    }


def _api_of_metric(name: str) -> str | None:
    metric = _METRIC.fullmatch(name)
    return api_of(_SOURCE, metric[1]) if metric and metric[1] not in _NO_APIS else None
