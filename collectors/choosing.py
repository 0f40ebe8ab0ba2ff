"""Finds the collector of a log, or says what was seen of one that none recognises."""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from fpmonitor.collectors.json_lines import records_of
from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.request_members import are_named_as_requests
from fpmonitor.collectors.unfolding import one_record_a_line
from fpmonitor.errors import InputError, UnknownNameError, describe_names, excerpt
from fpmonitor.masking import masked_text
from fpmonitor.plugins import COLLECTORS, load_plugin, plugin_names
from fpmonitor.unit import refuse_requests
from fpmonitor.vocabulary import meanings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Collector
    from fpmonitor.logs.log_file import LogFile

_GENERIC = {"long", "wide"}  # tried last: logs of a known source may look like tables, too
_NAME_OF_USERS = re.compile(
    r"(?i)(?:^|columns |, )"
    r"((?:user|visitor|client|device)[ _-]?(?:id|uuid)|uid|visitor|client)(?=,|$)"
)
_NAME = re.compile(r"[^\W\d][\w .:/#()-]{0,60}")
_MEMBER = re.compile(rf"[@$]?{_NAME.pattern}")  # as of Logstash and of JSON schemas


class Recognised(NamedTuple):
    """A log in the form that its collector reads, and the column map with the log's own names."""

    log: LogFile
    collector: Collector
    column_map: ColumnMap


def recognised(log: LogFile, column_map: ColumnMap, collector: str | None = None) -> Recognised:
    """Recognise a log, once for all that is done with it."""
    log.check_expansion()  # before the copies that collectors make, which are not packed
    lined = one_record_a_line(log, named_as_in(log, column_map))
    column_map = named_as_in(lined, column_map)  # names may be within what became records
    return Recognised(lined, choose_collector(lined, column_map, collector), column_map)


def named_as_in(log: LogFile, column_map: ColumnMap) -> ColumnMap:
    """Return the map without spaces around names that the log has without them."""
    spaced = {name: name.strip() for name in column_map.named() if name != name.strip()}
    if not spaced:
        return column_map
    names = {column.name for column in reader_of(log).head_columns(log)}
    found = {name: bare for name, bare in spaced.items() if name not in names and bare in names}
    return column_map.renamed(found)


def choose_collector(log: LogFile, column_map: ColumnMap, name: str | None = None) -> Collector:
    """Load the collector of a name, or the one that recognises the log.

    Raises:
        InputError: None recognises it, and the message says what was seen; or its rows are
            requests.
    """
    if name is not None:
        return _checked(load_plugin(COLLECTORS, name)(), log, column_map)
    for known in sorted(plugin_names(COLLECTORS), key=_GENERIC.__contains__):
        candidate: Collector = load_plugin(COLLECTORS, known)()
        if candidate.recognises(log, column_map):
            return _checked(candidate, log, column_map)
    names = _names(log)
    seen = _seen(log, names)
    user = column_map.name_of("user")
    if names and "user" in column_map.columns and user not in {"row", *names}:
        _check_user(log, user, seen)
    likely = _NAME_OF_USERS.search(seen)
    if are_named_as_requests(names):
        raise refuse_requests(log.label, "wide", quote(likely[1]) if likely else "COLUMN")
    if user in names:
        raise InputError(
            f"{log.label}: beside {excerpt(user)!r} no column may be an API; seen: {seen}",
            hint="an API is what a browser returned: a user agent, a size, a list of fonts; an id "
            "or a hash of them is none",
        )
    if likely:
        raise InputError(
            f"{log.label}: it is not said who a row is; seen: {seen}",
            hint=f"--user {quote(likely[1])} where {excerpt(likely[1])} names the users; "
            "--user row where each row counts; in Python "
            f"ColumnMap({{'user': {likely[1]!r}}})",
        )
    raise InputError(
        f"{log.label}: cannot tell what this {log.format} log holds; seen: {seen}",
        hint=f"a log needs a column {user!r}: --user NAME says which it is, "
        "--user row that each row counts, --weight NAME for how many; --columns MAP.toml, in "
        "Python ColumnMap({'user': NAME}), names all columns",
    )


def _check_user(log: LogFile, user: str, seen: str) -> None:
    """Refuse a name of the users that the first records do not have."""
    columns = [column.name for column in reader_of(log).head_columns(log)]
    if user in columns:
        return
    near = UnknownNameError("column", user, filter(_MEMBER.fullmatch, columns)).nearest
    raise InputError(
        f"{log.label}: no column {excerpt(user)!r}; seen: {seen}",
        hint=f"nearest: {', '.join(near)}" if near else "--user NAME names those who were seen",
    )


def _checked(collector: Collector, log: LogFile, column_map: ColumnMap) -> Collector:
    """Return the collector; refuse requests of which nobody said who a row is, before any log."""
    if hasattr(collector, "unit_of"):
        collector.unit_of(log, column_map)
    return collector


def _seen(log: LogFile, names: Sequence[str]) -> str:
    if names:
        kind = "columns " if log.format == "csv" else ""
        return kind + describe_names(list(map(excerpt, names)))
    if log.format == "csv":
        header = log.head.decode("utf-8-sig", "replace").splitlines()[0]
        return f"header {masked_text(excerpt(header))!r}"
    members = describe_names([masked_text(excerpt(name)) for name in _members(log)])
    return f"members {members}" if members else "no line that is a JSON object"


def _members(log: LogFile) -> list[str]:
    return list(next(records_of(log.head), ()))


def _names(log: LogFile) -> list[str]:
    """Names of columns, or of members of the first object; none where they could be values.

    Of a table without names, whose texts are JSON, cells of the first row are those of members.
    """
    if log.format == "parquet":
        return [name for name, _ in log.parquet_columns]
    if log.format == "jsonl":
        members = _members(log)
        names = list(filter(_MEMBER.fullmatch, members))
        # Beside names that are known, members such as `fonts[0]` make no table of values.
        is_record = any(_NAME_OF_USERS.fullmatch(name) or meanings(name) for name in names)
        return names if is_record or len(names) == len(members) else []
    header, *records = log.head.decode("utf-8-sig", "replace").splitlines()[:100]
    names = list(filter(None, _cells(header)))
    values = {cell for record in records for cell in _cells(record)}
    is_header = all(map(_NAME.fullmatch, names)) and values.isdisjoint(names)
    return names if is_header else []


def _cells(line: str) -> list[str]:
    return [cell.strip(' "') for cell in re.split(r"[,;\t|]", line)]
