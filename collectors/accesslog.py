"""Access logs of Apache and nginx: what each request's headers said of the browser."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.records import (
    OF_PAGES,
    Record,
    RecordCollector,
    RecordError,
    Visit,
    request_headers,
    text_lines,
    value_text,
)
from fpmonitor.safe_files import strict_json
from fpmonitor.vocabulary import is_known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apachelogs import LogParser

    from fpmonitor.logs.log_file import LogFile

HEADERS = (
    "User-Agent", "Accept-Language", "Accept-Encoding", "DNT", "Sec-GPC", "Sec-CH-UA",
    "Sec-CH-UA-Mobile", "Sec-CH-UA-Platform", "Sec-CH-UA-Platform-Version", "Sec-CH-UA-Arch",
    "Sec-CH-UA-Bitness", "Sec-CH-UA-Model", "Sec-CH-UA-Full-Version-List", "Sec-CH-UA-Form-Factors",
    "Sec-CH-Device-Memory", "Sec-CH-DPR", "Sec-CH-Viewport-Width", "Sec-CH-Prefers-Color-Scheme",
)  # fmt: skip
_TRANSPORT = "transport:"  # what modules of servers and content networks tell of a connection
COOKIE = "fpm"
_MAX_LINE = 4000  # characters: the time of apachelogs grows with the cube of a hostile line
_APACHE = f"%t %{{{COOKIE}}}C " + " ".join(f'"%{{{header}}}i"' for header in HEADERS)
_LINE = re.compile(r'\S+ .*\[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] (".*|\S+ ".*)', re.DOTALL)
_OURS = re.compile(r'\[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] \S+ ".*', re.DOTALL)
_USER_AGENT = "http:user-agent"
_MEMBERS = {"user", "host", "time", *(f"http:{one.lower()}" for one in (*HEADERS, *OF_PAGES))}


def log_line(server: str) -> str:
    """Return the configuration that makes a web server log what this collector reads.

    Parameters
    ----------
    server
        `nginx` or `apache`. The cookie `fpm` names the user; a site that has none sets one.
    """
    if server == "apache":
        escaped = _APACHE.replace('"', '\\"')
        return f'LogFormat "{escaped}" fpmonitor\nCustomLog logs/fpmonitor.log fpmonitor\n'
    fields = {"user": f"$cookie_{COOKIE}", "time": "$time_iso8601"} | {
        f"http:{header.lower()}": f"$http_{header.lower().replace('-', '_')}"
        for header in (*HEADERS, *OF_PAGES)
    }
    return (
        f"log_format fpmonitor escape=json '{json.dumps(fields)}';\n"
        "access_log logs/fpmonitor.log fpmonitor;\n"
    )


class AccesslogCollector(RecordCollector):
    """Reads the common, combined and vhost formats, and the two that `log_line` gives.

    A header that a request lacks is absent: browsers send most client hints only after the server
    has asked for them. Users are those that the cookie `fpm` names, or as is said: see
    `fpmonitor.unit`.
    """

    name: ClassVar[str] = "accesslog"
    rows_are_requests: ClassVar[bool] = True

    def first(self, log: LogFile) -> Sequence[Any]:
        """Contents of the first good lines; empty for logs in another form."""
        head = log.head.lstrip()
        if head[:4] == b"PAR1" or b"\0" in head[:4096]:
            return []
        lines = [raw.decode("utf-8", "replace").strip() for raw in head.splitlines()[:20]]
        if not (_are_ours(lines) if head[:1] == b"{" else any(map(_looks_right, lines))):
            return []
        return [record.content for record in islice(self.records(log), 20) if not record.problem]

    def recognises_record(self, record: Any) -> bool:
        """Whether a line was understood."""
        return isinstance(record, dict)

    def records(self, log: LogFile) -> Iterator[Record]:
        """Split the log into lines, each as an object with `user`, `host`, `time` and headers."""
        for line, raw in text_lines(log):
            text = raw.decode("utf-8", "replace").rstrip("\r\n")
            try:
                yield Record(line, _parsed(text), None, text)
            except RecordError as error:
                yield Record(line, None, str(error), text)

    def visit(self, record: Any) -> Visit:
        """Headers of one request."""
        headers = {
            name.removeprefix("http:"): value
            for name, value in record.items()
            if name.startswith("http:")
        }
        transport = {
            name: value_text(value)
            for name, value in record.items()
            if name.startswith(_TRANSPORT) and is_known(name)
        }
        return Visit(request_headers(headers) | transport, self.name)


def _are_ours(lines: Sequence[str]) -> bool:
    """Whether JSON lines have members of `log_line` alone, all of them text as nginx writes it."""
    records: list[object] = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            records.append(json.loads(line))
    return bool(records) and all(
        isinstance(record, dict)
        and _USER_AGENT in record
        and all(name in _MEMBERS or name.startswith(_TRANSPORT) for name in record)
        and all(isinstance(value, str) for value in record.values())
        for record in records
    )


def _looks_right(line: str) -> bool:
    return bool(_LINE.fullmatch(line) or _OURS.fullmatch(line))


def _parsed(line: str) -> dict[str, str | None]:
    if line.startswith("{"):
        return _parsed_json(line)
    if len(line) > _MAX_LINE:
        raise RecordError(f"longer than {_MAX_LINE:,} characters")
    for parser in _parsers():
        with suppress(ValueError):
            entry = parser.parse(line)
            sent = getattr(entry, "headers_in", {})  # the common format has none
            return {f"http:{name.lower()}": value for name, value in sent.items()} | {
                "user": getattr(entry, "cookies", {}).get(COOKIE),
                "host": getattr(entry, "remote_host", None),
                "time": entry.request_time.isoformat(),
            }
    raise RecordError("not a line of a known log format")


def _parsed_json(line: str) -> dict[str, str | None]:
    try:
        members = strict_json(line)
    except (ValueError, RecursionError) as error:
        raise RecordError("not JSON") from error
    if not isinstance(members, dict):
        raise RecordError("not a JSON object")
    # nginx writes the empty text for a header that the request lacks.
    return {name: text for name, text in members.items() if isinstance(text, str) and text}


@cache
def _parsers() -> tuple[LogParser, ...]:
    from apachelogs import COMBINED, COMMON, VHOST_COMBINED, LogParser  # noqa: PLC0415 -- slow to load

    formats = (_APACHE, COMBINED, VHOST_COMBINED, COMMON)
    return tuple(LogParser(form, encoding="utf-8", errors="replace") for form in formats)
