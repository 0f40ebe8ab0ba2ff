"""Lists as what they hold: fonts, features and codecs, each a member that is true or false.

A list is one value, and nearly every browser has another one. Element by element a site may be
shown those that crowds have in common.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from fpmonitor.collectors.tables import MAX_MEMBERS
from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fpmonitor.logs.log_file import LogFile

MOST_ELEMENTS = MAX_MEMBERS  # of an object with more, none is an API
_LONGEST = 100  # characters of a name
# Other members are not parsed: they stay as they are written.
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def with_elements(log: LogFile, columns: Collection[str]) -> Iterator[bytes]:
    """Lines of a log of JSON records, with an object in the place of each list in these columns.

    It has a member for each element that any record lists, true or false; a record without the
    list has none of them.

    Raises:
        InputError: A column without a list, or with too many elements.
    """
    known: dict[str, set[str]] = {column: set() for column in columns}
    for members in _records(log):
        for column, seen in known.items():
            seen.update(_listed(members, column) or ())
            if len(seen) > MOST_ELEMENTS:
                raise InputError(
                    f"elements: {column!r} lists more than {MOST_ELEMENTS} different ones",
                    hint="they are no APIs, but names that are data",
                )
    for column, seen in known.items():
        if not seen:
            raise InputError(
                f"elements: {column!r} holds no list", hint="a JSON list of texts, such as fonts"
            )
    # Through the log once more: a record is false in what only later ones list.
    order = {column: sorted(seen) for column, seen in known.items()}
    with log.open() as file:
        for line in file:
            found = _members(line)
            if found is None:
                yield line
                continue
            for column, names in order.items():
                shown = _listed(found, column)
                if shown is not None:
                    presence = {name: name in shown for name in names}
                    found[column] = msgspec.Raw(msgspec.json.encode(presence))
            yield msgspec.json.encode(found) + b"\n"


def _records(log: LogFile) -> Iterator[dict[str, msgspec.Raw]]:
    with log.open() as file:
        yield from (members for members in map(_members, file) if members is not None)


def _members(line: bytes) -> dict[str, msgspec.Raw] | None:
    """Members of a record as they are written; null where it is none."""
    try:
        return _MEMBERS.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None


def _listed(members: dict[str, msgspec.Raw], column: str) -> set[str] | None:
    """Elements of a list, which may be text; null where there is none."""
    try:
        value = msgspec.json.decode(members.get(column, b"null"))
        if isinstance(value, str) and value.lstrip()[:1] == "[":
            value = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None
    return {_name(element) for element in value} if isinstance(value, list) else None


def _name(element: Any) -> str:
    """Name an element: text is its own, anything else is its JSON; a dot would be a member."""
    text = element if isinstance(element, str) else json.dumps(element, sort_keys=True)
    return text.replace(".", "_")[:_LONGEST]
