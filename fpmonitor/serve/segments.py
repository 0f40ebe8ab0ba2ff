"""Segments of the spool as logs of the store: rows of what was framed, and of nothing else."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.records import ERROR, UNDEFINED, RowTable, Visit
from fpmonitor.collectors.reporting import REPORT_TYPE
from fpmonitor.logs.contract import Call, Refused, Reject, Scan
from fpmonitor.serve.frames import (
    Content,
    Observations,
    PolicyReport,
    Reports,
    Results,
    whole_frames,
)
from fpmonitor.sql import quote_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.log_file import LogFile

Row = tuple[str, str, str, str, str, str | None, str | None, str | None]
_IDS = ("visit_id", "session_id")
_COLUMNS = ("user", "time", "source", "api", "status", "value", *_IDS)
_PART_ROWS = 100_000


def rows_of_observations(content: Observations) -> Iterator[Row]:
    """Rows of the observations of one request, the headers of its users last."""
    source, received = content.source, content.received
    for one in content.records:
        fields = one.api, one.status, one.value
        yield one.user, received, source, *fields, one.visit_id, one.session_id
    for user, visit, session in content.users:
        for api, value in content.headers.items():
            yield user, received, source, api, "value", value, visit, session


class _Segment:
    """What both kinds of segments share; `taken` are the names that the database has room for."""

    def __init__(self, taken: Collection[str] | None = None) -> None:
        self._taken = taken

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:  # noqa: ARG002 -- the contract of collectors
        """No log is taken for a segment."""
        return False

    def locate(
        self,
        log: LogFile,  # noqa: ARG002 -- the contract of collectors
        rows: Mapping[int, str],
        refused: Sequence[Refused],  # noqa: ARG002 -- DuckDB reads none of it as CSV
    ) -> list[Reject]:
        """Find the records that could not be stored."""
        return [Reject(row + 1, reason, "") for row, reason in rows.items()]

    def takes(self, names: Iterable[str]) -> bool:
        """Whether the database has room for a record of these names."""
        return self._taken is None or all(name in self._taken for name in names)


class ObservationSegment(_Segment):
    """Observations, an API a row."""

    name: ClassVar[str] = "long"

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:  # noqa: ARG002 -- the contract of collectors
        """How to read the log: its rows are written to Parquet files here."""
        import polars as pl  # noqa: PLC0415 -- slow to load

        folder = Path(tempfile.mkdtemp(prefix="fpmonitor-"))
        # The store reads these files after `scan` has returned.
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        rows = (
            row
            for content in whole_frames(log.path)
            if isinstance(content, Observations)
            for row in rows_of_observations(content)
            if self.takes([row[3]])
        )
        parts: list[str] = []
        # Without it a column of nulls alone would have another type in one part than in the next.
        schema = dict.fromkeys(_COLUMNS, pl.String)
        # One file also where there is no row: `read_parquet` refuses an empty list.
        while (part := list(islice(rows, _PART_ROWS))) or not parts:
            path = folder / f"{len(parts)}.parquet"
            frame = pl.DataFrame(part, schema=schema, orient="row")
            frame.write_parquet(path, compression="lz4", statistics=False)
            parts.append(quote_text(str(path)))
        select = (
            "SELECT NULL::VARCHAR AS problem, * "  # noqa: S608 -- quoted
            f"FROM read_parquet([{', '.join(parts)}])"
        )
        return Scan(select, None, values_are_json=True, names_visits=True)


class ResultSegment(_Segment):
    """Results of FingerprintJS, one a row."""

    name: ClassVar[str] = "fingerprintjs"

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:  # noqa: ARG002 -- the contract of collectors
        """How to read the log; errors as of `RowTable.scan`."""
        self._table = table = RowTable()  # keeps the temporary files
        place = 0
        for content in whole_frames(log.path):
            for one in content.records if isinstance(content, Results) else ():
                if self.takes(one.values):
                    place += 1
                    visit = Visit(one.values, one.source, one.user, content.received)
                    named = replace(visit, visit_id=one.visit_id, session_id=one.session_id)
                    table.add(place, named)
        return table.scan(log)


class ReportSegment:
    """Reports of browsers on policies."""

    name: ClassVar[str] = "reporting"

    def recognises(self, log: LogFile) -> bool:  # noqa: ARG002 -- the contract of collectors
        """No log is taken for a segment."""
        return False

    def calls(self, log: LogFile) -> Iterator[Call]:
        """Read the calls."""
        for content in whole_frames(log.path):
            for one in content.records if isinstance(content, Reports) else ():
                yield Call(one.site, one.script, one.api, 1)


def as_lines(contents: Iterable[Content], taken: Collection[str] | None) -> Iterator[bytes]:
    """Write records that the database does not take as lines that `ingest` and `demand` read.

    `taken` are the names that it has room for; null where it refuses all of these records.
    """
    for content in contents:
        if isinstance(content, Observations):
            for row in rows_of_observations(content):
                if taken is None or row[3] not in taken:
                    yield _line(_observation(row))
        elif isinstance(content, Results):
            for one in content.records:
                if taken is None or not all(api in taken for api in one.values):
                    fields = (one.user, content.received, one.source)
                    for api, text in one.values.items():
                        ids = (one.visit_id, one.session_id)
                        yield _line(_observation((*fields, api, *_status(text), *ids)))
        else:
            yield from map(_line, map(_violation, content.records))


def _status(text: str) -> tuple[str, str | None]:
    """Status and value of what a result says."""
    if text == UNDEFINED:
        return "undefined", None
    if text.startswith(ERROR):
        return "error", text.removeprefix(ERROR)
    return "value", text


def _observation(row: Sequence[str | None]) -> dict[str, Any]:
    members = dict(zip(_COLUMNS, row, strict=True))
    members = {name: part for name, part in members.items() if name not in _IDS or part is not None}
    value = members.pop("value")
    return members if value is None else members | {"value": json.loads(value)}


def _violation(one: PolicyReport) -> dict[str, Any]:
    body = {"policyId": one.api, "sourceFile": f"https://{one.script}"}
    return {"type": REPORT_TYPE, "url": f"https://{one.site}/", "body": body}


def _line(record: object) -> bytes:
    return json.dumps(record).encode() + b"\n"
