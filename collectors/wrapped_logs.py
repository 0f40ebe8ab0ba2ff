"""Lines of servers inside those of what collects them: JSON behind a prefix, text in a member."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import weakref
from collections import defaultdict
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fpmonitor.collectors import json_lines
from fpmonitor.collectors.log_forms import known_forms
from fpmonitor.logs.log_file import MAX_RECORD_BYTES, LogFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    if inner is None:
        return log
    folder = Path(tempfile.mkdtemp(prefix="fpmonitor-"))
    copy = LogFile(folder / "log", log.label)
    weakref.finalize(copy, shutil.rmtree, folder, ignore_errors=True)
    with log.shortened.open() as source, copy.path.open("w", encoding="utf-8") as target:
        while raw := source.readline(MAX_RECORD_BYTES):
            text = inner(raw.decode("utf-8", "replace"))
            # One line for each, empty or not: rejects are located by its number.
            target.write(text.replace("\n", " ").rstrip() + "\n")
    return copy


def _in_member(log: LogFile) -> Callable[[str], str] | None:
    """Find the member whose texts are lines of a server, or JSON of one."""
    texts: dict[str, list[str]] = defaultdict(list)
    for record in islice(json_lines.records_of(log.head), _SAMPLE):
        for name in _MEMBERS & record.keys():
            texts[name].append(str(record[name]).strip())
    member_name = next((name for name in sorted(texts) if _are_lines(texts[name])), None)
    if member_name is None:
        return None

    def inner(line: str) -> str:
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get(member_name), str):
                return str(record[member_name])
        return line

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
    if 2 * len(fitting) < len(lines) or not any(_is_object(found["content"]) for found in fitting):
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


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
