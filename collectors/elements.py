"""Lists as what they hold: fonts, features and codecs, each a member that is true or false.

A list is one value, and nearly every browser has another one. Element by element a site may be
shown those that crowds have in common.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fpmonitor.collectors.tables import MAX_MEMBERS
from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fpmonitor.logs.log_file import LogFile

MOST_ELEMENTS = MAX_MEMBERS  # of an object with more, none is an API
_LONGEST = 100  # characters of a name


def with_elements(log: LogFile, columns: Collection[str]) -> Iterator[bytes]:
    """Lines of a log of JSON records, with an object in the place of each list in these columns.

    It has a member for each element that any record lists, true or false; a record without the
    list has none of them.

    Raises
    ------
    InputError
        A column without a list, or with too many elements.
    """
    known: dict[str, set[str]] = {column: set() for column in columns}
    for record in _records(log):
        for column, seen in known.items():
            seen.update(_listed(record, column) or ())
    for column, seen in known.items():
        if not seen:
            raise InputError(
                f"elements: {column!r} holds no list", hint="a JSON list of texts, such as fonts"
            )
        if len(seen) > MOST_ELEMENTS:
            raise InputError(
                f"elements: {column!r} lists {len(seen):,} different ones, at most "
                f"{MOST_ELEMENTS:,} can be told apart"
            )
    order = {column: sorted(seen) for column, seen in known.items()}
    with log.open() as file:
        for line in file:
            found = _record(line)
            if found is None:
                yield line
                continue
            for column, names in order.items():
                shown = _listed(found, column)
                if shown is not None:
                    found[column] = {name: name in shown for name in names}
            yield json.dumps(found, ensure_ascii=False).encode() + b"\n"


def _records(log: LogFile) -> Iterator[dict[str, Any]]:
    with log.open() as file:
        yield from (record for record in map(_record, file) if record is not None)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _listed(record: dict[str, Any], column: str) -> set[str] | None:
    """Elements of a list, which may be text; null where there is none."""
    value = record.get(column)
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list):
        return None
    return {_name(element) for element in value}


def _name(element: Any) -> str:
    """Name an element: text is its own, anything else is its JSON; a dot would be a member."""
    text = element if isinstance(element, str) else json.dumps(element, sort_keys=True)
    return text.replace(".", "_")[:_LONGEST]
