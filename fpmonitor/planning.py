"""What `ingest --plan` writes: a column map that says of every member what it is."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from fpmonitor.account import SET_ASIDE, TIME_OF_RECORDS, Member
from fpmonitor.collectors.choosing import recognised
from fpmonitor.errors import InputError
from fpmonitor.judgement import LOOKS, USER_AGENTS, Verdict
from fpmonitor.logs.finding import log_files
from fpmonitor.safe_files import write_bytes
from fpmonitor.store.database import Database
from fpmonitor.store.ingest import plan_ingest
from fpmonitor.vocabulary import meaning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.store.accounts import Judged

_FIELDS = frozenset(("time", "user", "weight"))
_ONE_OF = {"weight": "user"}  # a log has one or the other


def logs_and_map(paths: Sequence[str]) -> tuple[list[str], Path]:
    """Tell logs from the column map that is to be written: that one ends in .toml.

    Raises:
        InputError: There are two of them, or no log; or none is named, and there is a file of the
            default name.
    """
    maps = [Path(path) for path in paths if path.lower().endswith(".toml")]
    logs = [path for path in paths if not path.lower().endswith(".toml")]
    if len(maps) > 1 or not logs:
        raise InputError(
            "--plan: needs logs, and at most one column map that it writes",
            hint="as in `fpmonitor ingest --plan LOG MAP.toml`",
        )
    if maps:
        return logs, maps[0]
    # A pattern or `-` names no one file: the map is then called by what it is of, a log.
    named = Path(logs[0]).name.split(".")[0]
    target = Path(f"{named if named and not has_magic(named) and named != '-' else 'log'}.toml")
    if target.exists():
        raise InputError(
            f"{target}: exists; nothing was written",
            hint=f"`fpmonitor ingest --plan {quote(logs[0])} {target}` writes it anew",
        )
    return logs, target


def plan_logs(
    paths: Sequence[str],
    column_map: ColumnMap,
    *,
    collector: str | None = None,
    allow_network: bool = False,
) -> dict[str, Judged]:
    """Tell by the name of each log what its members are, and store nothing.

    Parameters and errors are those of `Monitor.ingest`, which refuses a log with members of which
    only the user can say what they are; these are in `asks` here.
    """
    # A database of its own: a plan runs the statements of an ingest, and the user's file stays
    # shut.
    with (
        tempfile.TemporaryDirectory(prefix="fpmonitor-") as folder,
        log_files(paths, allow_network=allow_network) as logs,
        Database(Path(folder) / "plan.duckdb", create=True) as database,
    ):
        known = [recognised(log, column_map, collector) for log in logs]
        return {one.log.label: plan_ingest(database, *one) for one in known}


def write_map(path: Path, planned: Mapping[str, Judged]) -> None:
    """Write the column map by which logs are read as they were planned."""
    write_bytes(path, [map_text(planned).encode()])


def map_text(planned: Mapping[str, Judged]) -> str:
    """Return the TOML text of the column map; the first log that has a member decides on it."""
    column_map = _joined([judged.column_map for judged in planned.values()])
    members: dict[str, Member] = {}
    asks: dict[str, Verdict] = {}
    for judged in planned.values():
        for member in judged.account.members:
            if members.setdefault(member.path, member) is member and member.path in judged.asks:
                asks[member.path] = judged.asks[member.path]
    columns = dict(column_map.columns)
    # Times that are not those of the records come after the one that is, and took its place.
    fields = [m for m in members.values() if m.kind != "time" or m.why == TIME_OF_RECORDS]
    columns |= {m.kind: m.path for m in fields if m.kind in {"user", "time", "source"}}
    lines = ["# What each member of the log is: change what is wrong, and give it to --columns."]
    ignored = dict.fromkeys(sorted(column_map.ignore), "")
    apis = dict(column_map.apis)
    for path, member in members.items():
        if path in apis or member.path in columns.values():
            continue
        if path in asks:
            field = asks[path].asks or ""
            if field in _FIELDS and not {field, _ONE_OF.get(field, field)} & columns.keys():
                columns[field] = path
            else:
                ignored[path] = _asked(path, asks[path])
        elif member.kind in SET_ASIDE or member.kind == "time":
            ignored[path] = member.why
        elif member.api == path and member.why.startswith(USER_AGENTS):
            apis[path] = "Navigator.userAgent"
        elif member.api == path and member.why.startswith(("its name", "an unknown name")):
            apis[path] = meaning(path, {})
    lines += ["ignore = ["]
    lines += [f"    {_toml(path)},{_comment(why)}" for path, why in ignored.items()]
    lines += ["]"]
    lines += _settings(column_map)
    for table, entries in (("columns", columns), ("apis", apis)):
        lines += ["", f"[{table}]"]
        lines += [f"{_toml(name)} = {_toml(value)}" for name, value in entries.items()]
    return "\n".join([*lines, ""])


def _joined(maps: Sequence[ColumnMap]) -> ColumnMap:
    """Return the one map of logs, which may have its names with spaces or without."""
    return replace(
        maps[0],
        columns={field: name for one in reversed(maps) for field, name in one.columns.items()},
        ignore=frozenset().union(*(one.ignore for one in maps)),
        apis={name: api for one in maps for name, api in one.apis.items()},
        elements=frozenset().union(*(one.elements for one in maps)),
    )


def _settings(column_map: ColumnMap) -> Iterator[str]:
    if column_map.absent:
        yield f"null = [{', '.join(map(_toml, sorted(column_map.absent)))}]"
    elif column_map.null == "value":
        yield 'null = "value"'
    if column_map.elements:
        yield f"elements = [{', '.join(map(_toml, sorted(column_map.elements)))}]"
    if not column_map.flatten:
        yield "flatten = false"
    if column_map.visitor:
        yield "visitor = true"
    if column_map.log_format:
        yield f"log_format = {_toml(column_map.log_format)}"


def _asked(path: str, verdict: Verdict) -> str:
    look = LOOKS[verdict.asks or "id"]
    return f'looks like {look}; if it is an API, move it to [apis] as {_toml(path)} = ""'


def _comment(why: str) -> str:
    return f"  # {why}" if why else ""


def _toml(text: str) -> str:
    # A text of JSON is one of TOML but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
