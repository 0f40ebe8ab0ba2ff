"""Records that hold the result of a library somewhere: where it is, and what lies beside it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fpmonitor.collectors.records import opened, value_text
from fpmonitor.collectors.tables import MAX_DEPTH, MAX_MEMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

SECOND = "a record is one visit: its first result is read"
_MOST_STEPS = 24  # more than any log has; a text in a text in a text grows with each of them


@dataclass(frozen=True, slots=True)
class Found:
    """What was looked for, and the names that lead to it."""

    content: Any
    path: tuple[str, ...] = ()

    def name_of(self, member: str) -> str:
        """Name of a member of it in the record, joined by dots."""
        return ".".join((*self.path, member))


@dataclass(frozen=True, slots=True)
class Reading:
    """How what lies beside results is read.

    Attributes
    ----------
    is_wanted
        What is a result, of which a record may have one.
    fields
        Names of members that are no APIs (the user, the time, what is ignored), and why one of
        them is left out; empty for those that are read.
    left_out
        Last parts of names that are left out, and why.
    flatten
        Whether a nested member is an API a leaf, as of the wide collector.
    """

    is_wanted: Callable[[Any], bool]
    fields: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    flatten: bool = True

    def is_nested(self, value: object, depth: int) -> bool:
        """Whether a value below so many names is one API for each of its members."""
        is_object = isinstance(value, dict) and 0 < len(value) <= MAX_MEMBERS
        return is_object and self.flatten and depth < MAX_DEPTH


@dataclass(slots=True)
class Beside:
    """What lies beside a result: values by their names, and what is left out, with the reason."""

    values: dict[str, str] = field(default_factory=dict)
    not_taken: dict[str, str] = field(default_factory=dict)


def find(content: object, is_wanted: Callable[[Any], bool]) -> Found | None:
    """Find what is wanted at any depth, also in texts that are JSON; the outermost, the first."""
    queue = deque([Found(opened(content))])
    while queue:
        here = queue.popleft()
        if is_wanted(here.content):
            return here
        if len(here.path) < _MOST_STEPS:
            queue.extend(
                Found(opened(value), (*here.path, name)) for name, value in _members(here.content)
            )
    return None


def _members(content: object) -> Iterator[tuple[str, Any]]:
    """Members of an object or of a list that may hold others."""
    pairs: Any = ()
    if isinstance(content, dict):
        pairs = content.items()
    elif isinstance(content, list):
        pairs = ((str(place), value) for place, value in enumerate(content))
    for name, value in pairs:
        if isinstance(value, dict | list) or (isinstance(value, str) and value[:1] in {"{", "["}):
            yield name, value


def beside(record: object, found: Found, own: Collection[str], reading: Reading) -> Beside:
    """Tell what lies beside a result, as the wide collector would: an API a leaf.

    Parameters
    ----------
    record
        The whole record.
    found
        Its result.
    own
        Members of the result that are the library's.
    reading
        How the log is read.
    """
    told = Beside()

    def walk(path: tuple[str, ...], value: object) -> None:
        name = ".".join(path)
        value = opened(value)
        leads = path == found.path[: len(path)]
        reason = reading.fields.get(name, reading.left_out.get(path[-1]) if path else None)
        if value is None or reason == "":
            return
        if reason is not None:
            told.not_taken[name] = reason
        elif not leads and find(value, reading.is_wanted):
            told.not_taken[name] = SECOND
        elif leads or reading.is_nested(value, len(path)):
            inner = value.items() if isinstance(value, dict) else enumerate(_list(value))
            for key, part in inner:
                if path != found.path or key not in own:
                    walk((*path, str(key)), part)
        else:
            told.values[name] = value_text(value)

    walk((), record)
    return told


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
