"""JSON lines of which each wraps a record, as queues, log services and databases write them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from fpmonitor.collectors.documents import ENVELOPES
from fpmonitor.collectors.records import opened
from fpmonitor.vocabulary import meanings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_Path: TypeAlias = "tuple[str, ...]"
_SAMPLE = 200
_MOST_DEEP = 4
# Where queues, log services and databases keep the record itself.
_WRAPPERS = ENVELOPES.union(
    ["_source", "message", "@message", "_raw", "jsonpayload", "after", "newimage", "logevents"]
)
WHY = "wraps the records"


def wrapped_at(records: Iterable[Mapping[str, Any]], user: str) -> _Path | None:
    """Return the names that lead to the record in each line; null where the line is the record.

    The record is what names its user, under names that products give to what they wrap. Where rows
    are counted, it is all that a line has besides plain values that tell nothing of a browser.

    Parameters
    ----------
    records
        The first lines.
    user
        Name of the member for the user; `row` for none.
    """
    lines = list(islice(records, _SAMPLE))
    if not lines:
        return None
    if user == "row":
        names = {_only_object(line) for line in lines}
        name = names.pop()
        return None if name is None or names else (name,)
    # Of a queue, some lines hold no record: what was deleted has a null in its place.
    paths = list(filter(None, (set(_paths_to(line, user, ())) for line in lines)))
    if 2 * len(paths) <= len(lines):
        return None
    common = set.intersection(*paths)
    found = common.pop() if len(common) == 1 else ()
    return found if found and all(step.casefold() in _WRAPPERS for step in found) else None


def _only_object(line: Mapping[str, Any]) -> str | None:
    nested = [name for name, value in line.items() if _objects(value)]
    others = line.keys() - set(nested)
    if len(nested) != 1 or nested[0].casefold() not in _WRAPPERS or any(map(meanings, others)):
        return None
    return nested[0]


def _objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects that a member holds: itself, what its text says, or those of its list."""
    value = opened(value)
    if isinstance(value, dict):
        return [value] if value else []
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return value
    return []


def _paths_to(content: Mapping[str, Any], user: str, path: _Path) -> Iterator[_Path]:
    if isinstance(content.get(user), str | int | float):
        yield path
    elif len(path) < _MOST_DEEP:
        for name, value in content.items():
            found = [set(_paths_to(one, user, (*path, name))) for one in _objects(value)]
            if found:
                yield from set.intersection(*found)


class Unwrapping:
    """Takes the records out of lines.

    Attributes
    ----------
    left_out
        Members of what wraps the records, and the lines that have each.
    """

    def __init__(self, path: _Path, kept: Collection[str]) -> None:
        self.left_out: Counter[str] = Counter()
        self._path, self._kept = path, kept

    def lines(self, source: Iterable[bytes]) -> Iterator[bytes]:
        """Read lines; of one that is no JSON object, itself."""
        for line in source:
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                content = None
            if not isinstance(content, dict):
                yield line if line.endswith(b"\n") else line + b"\n"
                continue
            for record in self._records(content, self._path, ()):
                yield json.dumps(record).encode() + b"\n"

    def _records(
        self, content: Mapping[str, Any], path: _Path, above: _Path
    ) -> Iterator[Mapping[str, Any]]:
        if not path:
            yield content
            return
        step, *rest = path
        outer: dict[str, Any] = {}
        for name, value in content.items():
            if name == step:
                continue
            if name in self._kept or meanings(name) or isinstance(value, dict | list):
                outer[name] = value
            else:
                self.left_out[".".join((*above, name))] += 1
        objects = _objects(content.get(step))
        if not objects:  # a line without a record names no user, and is rejected
            yield outer
        for one in objects:
            for record in self._records(one, tuple(rest), (*above, step)):
                yield {**outer, **record}
