"""Logs of `key=value key="va lue"` (logfmt), as Go programs, Heroku and Rails write them."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from fpmonitor.collectors.log_forms import unescaped_c
from fpmonitor.collectors.records import text_lines
from fpmonitor.collectors.text_logs import forms_of
from fpmonitor.collectors.wrapped_logs import TIME, TIME_BEFORE
from fpmonitor.logs.log_file import LONG_LINE, MAX_RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.log_file import LogFile

_SAMPLE = 100
_FEWEST = 2  # members of a line
_VALUE = r'"(?:[^"\\]|\\.)*"|[^\s"]*'
_KEY = r'[^\s=",;]+'  # cells of a table may hold pairs, as cookies are
_PAIR = re.compile(rf"({_KEY})(?:=({_VALUE}))?")
# What syslog, containers and Heroku put before a line has neither `=` nor quotes.
_LINE = re.compile(
    rf'(?P<before>(?:[^\s="]+\s+){{0,8}}?)'
    rf"(?P<pairs>{_KEY}=(?:{_VALUE})(?:\s+{_KEY}(?:=(?:{_VALUE}))?)*)\s*"
)


def is_logfmt(log: LogFile, column_map: ColumnMap) -> bool:
    """Whether half of the first lines and more are pairs, and none is a line of a server."""
    if column_map.log_format or log.head[:4] == b"PAR1" or log.head.lstrip()[:1] in b"{[":
        return False
    lines = log.head.decode("utf-8-sig", "replace").splitlines()
    sample = list(islice(filter(None, lines), _SAMPLE))
    fitting = sum(_pairs(line) is not None for line in sample)
    return 2 * fitting >= len(sample) > 0 and fitting > 0 and not forms_of(log)


def as_json(log: LogFile) -> Iterator[bytes]:
    """Lines of the log as objects of texts; a line that is none stays as it is."""
    place, has_begun = 1, False
    for number, raw in text_lines(log):
        # Blank lines stay: rejects are located by their numbers.
        yield b"\n" * (number - place)
        place = number + 1
        content = _content(raw)
        if content is not None:
            has_begun = True
            yield json.dumps(content).encode() + b"\n"
        elif len(raw) > MAX_RECORD_BYTES:
            yield LONG_LINE.encode() + b"\n"
        else:  # a log of JSON is known by its first character
            yield (b"" if has_begun else b"{ ") + raw.rstrip() + b"\n"


def _content(raw: bytes) -> dict[str, Any] | None:
    try:
        return None if len(raw) > MAX_RECORD_BYTES else _pairs(raw.decode())
    except UnicodeDecodeError:
        return None


def _pairs(line: str) -> dict[str, Any] | None:
    """Members of a line: a key alone is true, one without a value absent; null for other lines."""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return None
    time_match = TIME_BEFORE.search(found["before"])
    content: dict[str, Any] = {TIME: time_match[0]} if time_match else {}
    for key, value in (pair.groups() for pair in _PAIR.finditer(found["pairs"])):
        if value is None:
            content[key] = True
        else:
            content[key] = unescaped_c(value[1:-1]) if value[:1] == '"' else value or None
    return content if sum(value is not True for value in content.values()) >= _FEWEST else None
