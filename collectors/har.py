"""HAR 1.2: what the requests of one browser told servers."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.records import (
    Record,
    RecordCollector,
    RecordError,
    Visit,
    json_records,
    request_headers,
)
from fpmonitor.collectors.request_members import OF_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fpmonitor.logs.log_file import LogFile


_TIME = "startedDateTime"


class HarCollector(RecordCollector):
    """Reads `log.entries[].request.headers`: requests, of which a file may hold one browser's."""

    name: ClassVar[str] = "har"
    rows_are_requests: ClassVar[bool] = True

    def recognises_record(self, record: Any) -> bool:
        """Whether the record is a HAR document."""
        return is_har(record)

    def records(self, log: LogFile) -> Iterator[Record]:
        """Split the documents into entries, counted from 1."""
        position = 0
        for document in json_records(log):
            # A document without entries is one broken record, not none.
            entries = _entries(document.content) or [None]
            # Tools give each file the same name; of two browsers no first request is the same.
            first = hashlib.sha256(json.dumps(entries[0], sort_keys=True).encode()).hexdigest()
            for entry in entries:
                position += 1
                problem = document.problem or (None if isinstance(entry, dict) else "no HAR entry")
                content = {"browser": f"{log.label}#{first}", "entry": entry}
                yield Record(position, content, problem, document.text)

    def visit(self, record: Any) -> Visit:
        """Headers of one request."""
        entry = record["entry"]
        request = entry.get("request")
        listed = request.get("headers") if isinstance(request, dict) else None
        if not isinstance(listed, list):
            raise RecordError("no request headers")
        headers = {
            str(header.get("name")).lower(): header["value"]
            for header in listed
            if isinstance(header, dict) and isinstance(header.get("value"), str)
        }
        started = entry.get(_TIME)
        time = started if isinstance(started, str) else None
        values, left_out = request_headers(headers)
        others = {f"request.{name}" for name in request} | {*entry}
        # Sorted: the order of a set changes from process to process.
        beside = dict.fromkeys(sorted(others - {"request", "request.headers", _TIME}), OF_RESOURCE)
        beside |= {f"request.headers.{name}": why for name, why in left_out.items()}
        paths = {api: f"request.headers.{api.removeprefix('http:')}" for api in values}
        return Visit(values, "har", time=time, not_taken=beside, paths=paths)

    def visitor_of(self, record: Any) -> Sequence[str]:
        """Tell the browser by the file."""
        return (record["browser"],)


def is_har(document: Any) -> bool:
    """Whether a document is a HAR."""
    return _entries(document) is not None


def _entries(document: Any) -> list[Any] | None:
    log = document.get("log") if isinstance(document, dict) else None
    entries = log.get("entries") if isinstance(log, dict) else None
    return entries if isinstance(entries, list) else None
