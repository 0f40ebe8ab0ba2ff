"""Lines of servers inside those of what collects them: JSON behind a prefix, text in a member."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from fpmonitor.collectors import json_lines
from fpmonitor.collectors.log_forms import known_forms
from fpmonitor.logs.log_file import MAX_RECORD_BYTES, copy_of
from fpmonitor.safe_files import json_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fpmonitor.logs.log_file import LogFile

TIME = "time of the line"
_SAMPLE = 100
_JSON_BEHIND = re.compile(r"(?P<before>[^{]*[^{\s])\s+(?P<content>\{.*\})\s*", re.DOTALL)
TIME_BEFORE = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(Z|[+-]\d\d:?\d\d)?")
_MEMBERS = {"log", "message", "msg", "textPayload", "MESSAGE", "line", "event", "_raw", "@message"}


def unwrapped(log: LogFile) -> LogFile:
    """Return the log of the lines inside, one a line of this log; else the log itself.

    Containers write `{"log": "192.0.2.1 - - [...]"}`, Caddy and syslog a time before JSON.
    """
    inner = _in_member(log) if log.head.lstrip()[:1] == b"{" else _behind_prefix(log)
    return log if inner is None else copy_of(log, _lines_inside(log.shortened, inner), form="JSON")


def _lines_inside(log: LogFile, inner: Callable[[str], str]) -> Iterator[bytes]:
    with log.open() as source:
        while raw := source.readline(MAX_RECORD_BYTES):
            text = inner(raw.decode("utf-8", "replace"))
            # One line for each, empty or not: rejects are located by its number. An escaped half of
            # a character stays half of one, which is not UTF-8: its line is rejected.
            yield text.replace("\n", " ").rstrip().encode("utf-8", "surrogatepass") + b"\n"


def _in_member(log: LogFile) -> Callable[[str], str] | None:
    """Find the member whose texts are lines of a server, or JSON of one."""
    texts: dict[str, list[str]] = defaultdict(list)
    for record in islice(json_lines.records_of(log.head), _SAMPLE):
        for name in _MEMBERS & record.keys():
            text = str(record[name]).strip().encode("utf-8", "replace")  # Polars takes no halves
            texts[name].append(text.decode())
    member_name = next((name for name in sorted(texts) if _are_lines(texts[name])), None)
    if member_name is None:
        return None

    def inner(line: str) -> str:
        record = json_or_none(line)
        text = record.get(member_name) if isinstance(record, dict) else None
        return text if isinstance(text, str) else line

    return inner


def _are_lines(texts: Sequence[str]) -> bool:
    import polars as pl  # noqa: PLC0415 -- slow to load

    # Not by `re`, which a line of a stranger can keep busy.
    sample = pl.Series(texts, dtype=pl.String)
    forms = (form.pattern for form in known_forms())
    return any(sample.str.contains(pattern).any() for pattern in (r"^\{.*\}$", *forms))


def _behind_prefix(log: LogFile) -> Callable[[str], str] | None:
    lines = log.head.decode("utf-8", "replace").splitlines()[:_SAMPLE]
    fitting = [found for line in lines if (found := _JSON_BEHIND.fullmatch(line))]
    contents = (json_or_none(found["content"]) for found in fitting)
    if 2 * len(fitting) < len(lines) or not any(isinstance(one, dict) for one in contents):
        return None

    def inner(line: str) -> str:
        found = _JSON_BEHIND.fullmatch(line)
        if found is None:
            return line
        time_match = TIME_BEFORE.search(found["before"])
        if time_match is None:
            return found["content"]
        rest = found["content"][1:].lstrip()
        return (
            f"{{{json.dumps(TIME)}: {json.dumps(time_match[0])}{'' if rest == '}' else ', '}{rest}"
        )

    return inner
