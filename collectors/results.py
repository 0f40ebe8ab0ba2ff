"""Collectors of what libraries return, which a site logs somewhere beside members of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.records import (
    IDS,
    RecordCollector,
    RecordError,
    Visit,
    opened,
    value_text,
)
from fpmonitor.collectors.table_rows import first_of, rows_of
from fpmonitor.collectors.tables import MAX_DEPTH, MAX_MEMBERS
from fpmonitor.plugins import COLLECTORS, load_plugin, plugin_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from fpmonitor.collectors.records import Record
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Scan
    from fpmonitor.logs.log_file import LogFile

_MOST_STEPS = 24  # more than any log has; a text in a text in a text grows with each of them
_SECOND = "a record is one visit: the first result of a library is read"
_TWICE = "a result says it too"


@dataclass(frozen=True, slots=True)
class LibraryResult:
    """What a library returned.

    Attributes:
        source: The library and its version.
        own: Members of the result (places in a list) that are the library's, taken or not.
        not_taken: Of those, what is left out, by name within the result, and why.
        paths: APIs -> the members that hold them, by name within the result.
    """

    values: Mapping[str, str]
    source: str
    own: Collection[str | int]
    not_taken: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """How records are read."""

    # Whose results are looked for; those that tell most come first.
    libraries: Sequence[ResultCollector]
    # Names of members that are no APIs (the user, the time, what is ignored), and why one of them
    # is left out; empty for those that are read.
    fields: Mapping[str, str] = field(default_factory=dict)
    flatten: bool = True  # Whether a nested member is an API a leaf, as of the wide collector.

    def library_of(self, content: object) -> ResultCollector | None:
        """Return the library whose result this is."""
        if not isinstance(content, dict | list):
            return None
        return next((one for one in self.libraries if one.is_result(content)), None)

    def flattens(self, value: object, depth: int) -> bool:
        """Whether a value below so many names is an API for each of its members."""
        is_object = isinstance(value, dict) and 0 < len(value) <= MAX_MEMBERS
        return is_object and self.flatten and depth < MAX_DEPTH


class ResultCollector(RecordCollector):
    """Reads results of a library, at any depth of a record and in texts that are JSON.

    Results of other libraries in the record are read as theirs. Whatever else it holds is kept
    under its own name, as the wide collector keeps it.
    """

    left_out: ClassVar[Mapping[str, str]] = {}  # Last parts of names beside a result, and why.
    # Libraries that tell less: a log with a result of another one as well is one of the other.
    is_minor: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.prepared: Reading | None = None

    @abstractmethod
    def is_result(self, content: Any) -> bool:
        """Whether this is a result, by what only this library has."""

    @abstractmethod
    def result(self, content: Any) -> LibraryResult:
        """Tell what a result says.

        Raises:
            RecordError: It holds a value that cannot be kept.
        """

    def recognises_record(self, record: Any) -> bool:
        """Whether the record is or holds a result, and none of a library that tells more."""
        return holds(record, self.is_result) and not any(
            holds(record, other.is_result)
            for other in _libraries()
            if self.is_minor and not other.is_minor
        )

    def first(self, log: LogFile) -> Sequence[Any]:
        """Contents of the first good records, which may be rows of a table."""
        return first_of(log)

    def records(self, log: LogFile) -> Iterator[Record]:
        """Split the log into records, which may be rows of a table."""
        is_json = log.first_byte in {b"{", b"["}
        return super().records(log) if is_json else rows_of(log)

    @property
    def reading(self) -> Reading:
        """How records are read: as `scan` was told, or with the default names."""
        return self.prepared or Reading(_libraries())

    def visit(self, record: Any) -> Visit:
        """Tell what the results of a record say, and what lies beside them."""
        visit = read_record(record, self.reading)
        if not visit.source:
            raise RecordError(f"no result of {self.name}")
        return visit

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log; errors as of every collector that reads record by record."""
        self.prepare(column_map)
        return super().scan(log, column_map)

    def prepare(self, column_map: ColumnMap) -> None:
        """Take from a column map what is no API."""
        fields = {column_map.name_of("source"): "the library tells the source"}
        fields |= dict.fromkeys(column_map.ignore, "--ignore")
        fields |= dict.fromkeys(map(column_map.name_of, ("user", "time", *IDS)), "")
        self.prepared = Reading(_libraries(), fields, flatten=column_map.flatten)


def holds(content: object, is_wanted: Callable[[Any], bool]) -> bool:
    """Whether something is or holds what is wanted, at any depth and in texts that are JSON."""
    return _Search(is_wanted).holds(content)


class _Search:
    """Tells of each part of a record whether it holds what is wanted; looks at each part once."""

    def __init__(self, is_wanted: Callable[[Any], bool]) -> None:
        self._is_wanted = is_wanted
        # By identity, as objects have no hash: what texts say is held, so that none is used again.
        self._texts: dict[int, object] = {}
        self._seen: dict[int, bool] = {}

    def opened(self, value: object) -> object:
        """Return what a text says; any other value as it is."""
        if not (isinstance(value, str) and value[:1] in {"{", "["}):
            return value
        if id(value) not in self._texts:
            self._texts[id(value)] = opened(value)
        return self._texts[id(value)]

    def holds(self, content: object) -> bool:
        """Whether a part of a record is or holds what is wanted."""
        first = self.opened(content)
        if id(first) not in self._seen:
            self._look_through(first)
        return self._seen[id(first)]

    def _look_through(self, first: object) -> None:
        # No recursion, as records may be nested deeply. Each part stands behind the one that holds
        # it: on the way back from the last, all within was seen.
        parts: list[tuple[object, int, int]] = [(first, 0, 0)]  # with their parents, and steps
        for place, (part, _, steps) in enumerate(parts):
            self._seen[id(part)] = self._is_wanted(part)
            if steps < _MOST_STEPS:
                inner = (self.opened(value) for _, value in _members(part) if _opens(value))
                parts.extend((value, place, steps + 1) for value in inner)
        for part, parent, _ in reversed(parts):
            self._seen[id(parts[parent][0])] |= self._seen[id(part)]


def _opens(value: object) -> bool:
    return isinstance(value, dict | list) or (isinstance(value, str) and value[:1] in {"{", "["})


def _members(content: object) -> Iterator[tuple[str | int, Any]]:
    if isinstance(content, dict):
        yield from content.items()
    elif isinstance(content, list):
        yield from enumerate(content)


def read_record(record: object, reading: Reading, known: LibraryResult | None = None) -> Visit:
    """Tell what a record says: results by their libraries, the rest as the wide collector would.

    Of several results of a library, the outermost counts, and of those the first.

    Args:
        record: The whole record.
        reading: How it is read.
        known: What the record says as a result, without its own members, where that is known
            already.

    Returns:
        Values and where they lie, what is left out and why; the source is that of the library that
        tells most, empty where no result was found.
    """
    values: dict[str, str] = {}
    not_taken: dict[str, str] = {}
    paths: dict[str, str] = {}
    sources: dict[str, str] = {}  # by library
    search = _Search(lambda content: reading.library_of(content) is not None)
    others: dict[str, tuple[str, str]] = {}
    # In breadth: the outermost result of a library comes before those within others.
    queue: deque[tuple[tuple[str | int, ...], Any]] = deque([((), record)])
    while queue:
        path, value = queue.popleft()
        name, value = ".".join(map(str, path)), search.opened(value)
        reason = reading.fields.get(name) if path else None
        if value is None or reason is not None:
            not_taken |= {name: reason} if reason else {}
            continue
        result = None if path else known
        library = None if result else reading.library_of(value)
        if library is not None:
            if library.name in sources:
                not_taken[_shown(path)] = _SECOND
                continue
            result = library.result(value)
            sources[library.name] = result.source
        if result is not None:
            values |= result.values
            paths |= {api: _shown((*path, one)) for api, one in result.paths.items()}
            not_taken |= {_shown((*path, one)): why for one, why in result.not_taken.items()}
        inside = isinstance(value, dict | list) and search.holds(value)
        is_leaf = not (inside or reading.flattens(value, len(path)))
        if result is not None or not path or not is_leaf:
            own = result.own if result else ()
            inner = ((key, part) for key, part in _members(value) if key not in own)
            queue.extend(((*path, key), part) for key, part in inner)
        else:
            others[name] = (str(path[-1]), value_text(value))
    found = [library for library in reading.libraries if library.name in sources]
    left_out = {last: why for library in found for last, why in library.left_out.items()}
    for name, (last, text) in others.items():
        if last in left_out:
            not_taken[name] = left_out[last]
        elif name in values:
            not_taken[name] = _TWICE
        else:
            values[name] = text
    source = sources[found[0].name] if found else ""
    return Visit(values, source, not_taken=not_taken, paths=paths)


def _shown(path: Sequence[str | int]) -> str:
    """Name of what is not taken: places in a list are one, as there may be many."""
    return ".".join("*" if isinstance(step, int) else step for step in path)


def holds_result(record: object) -> bool:
    """Whether a record is or holds a result of some library."""
    return any(holds(record, library.is_result) for library in _libraries())


@cache
def _libraries() -> tuple[ResultCollector, ...]:
    """All libraries whose results can be read; those that tell less are the last."""
    loaded = [load_plugin(COLLECTORS, name)() for name in plugin_names(COLLECTORS)]
    found = [one for one in loaded if isinstance(one, ResultCollector)]
    return tuple(sorted(found, key=lambda one: one.is_minor))
