"""Collectors that read record by record: each record becomes one row of a wide table.

The rows go to temporary Parquet files part by part, so that memory stays bounded.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from array import array
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor import safe_files
from fpmonitor.collectors.log_forms import OF_PAGES, USER_AGENT
from fpmonitor.collectors.request_members import (
    FORWARDED,
    NO_HEADER,
    OF_PLACE,
    OF_RESOURCE,
    are_named_as_requests,
)
from fpmonitor.errors import InputError, excerpt
from fpmonitor.logs.contract import LARGE_VALUE_BYTES, MAX_APIS, NOT_UTF_8, Reject, Scan
from fpmonitor.logs.log_file import LONG_LINE, MAX_RECORD_BYTES, NotTaken
from fpmonitor.logs.missing import json_texts
from fpmonitor.sql import quote_text
from fpmonitor.unit import VISITOR_SEPARATOR, refuse_requests, visitor_of, visitor_rule
from fpmonitor.vocabulary import aliases_of, api_of, known_apis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import IO

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Refused
    from fpmonitor.logs.log_file import LogFile
    from fpmonitor.unit import Unit

UNDEFINED = "undefined"
IDS = ("visit_id", "session_id")  # of a record of the page snippet: names of its visit and session
ERROR = "error:"
# A document is parsed whole: 256 MB of `[],` would be 85 million lists, so these are counted first.
_MAX_DOCUMENT_BYTES = 256_000_000
_MAX_ELEMENTS = 10_000_000  # of 100 bytes in memory and more
_STARTS = (b",", b"[", b"{")
# Rows of a part are in memory at once: one of many long values is written sooner.
_PART_RECORDS = 10_000
_PART_BYTES = 64_000_000
_TOO_LARGE = "a number is too large"  # such as 1e999, which Python reads as infinite


# They differ between pages, images and scripts, and then tell the resource, not the browser.
OF_NAVIGATIONS = {"accept", "upgrade-insecure-requests", *map(str.lower, OF_PAGES)}


def request_headers(
    headers: Mapping[str, str | None],
) -> tuple[dict[str, str], dict[str, str]]:
    """Values of request headers by their APIs; and headers that are left out, with the reason.

    These are cookies, what names places, and what tells the resource, unless `Sec-Fetch-Mode` says
    that a page was asked for.

    Args:
        headers: Name in any case -> value; null where the request had none.
    """
    present_headers = {name.lower(): value for name, value in headers.items() if value is not None}
    left_out = set() if present_headers.get("sec-fetch-mode") == "navigate" else OF_NAVIGATIONS
    values, not_taken = {}, {}
    for name, value in present_headers.items():
        api = f"http:{name}"
        if name in left_out:
            not_taken[name] = OF_RESOURCE
        elif api == FORWARDED:
            not_taken[name] = OF_PLACE
        elif api not in known_apis():
            not_taken[name] = NO_HEADER
        else:
            values[api] = value_text(value)
    return values, not_taken


class RecordError(Exception):
    """A record that cannot be used, and why."""


@dataclass(frozen=True, slots=True)
class Record:
    """A piece of a log: its line (element of an array), its content or what is wrong, its text."""

    line: int
    content: Any
    problem: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Visit:
    """What one record says; values are made by `value_text`, `error_text` and `UNDEFINED`.

    `not_taken` has the members that the collector leaves out on purpose, and why: the store counts
    and lists them. `paths` has the members of the log that APIs are in, where they are called
    otherwise: at least in the first record with each of them.
    """

    values: Mapping[str, str]
    source: str
    user: str | None = None
    time: str | None = None
    not_taken: Mapping[str, str] = field(default_factory=dict)
    visit_id: str | None = None
    session_id: str | None = None
    paths: Mapping[str, str] = field(default_factory=dict)


def value_text(value: object) -> str:
    """Return a value as JSON text; large ones by digest and length, as the store keeps them."""
    if isinstance(value, str):
        return _digest_of(value) or _quoted(value)
    if isinstance(value, dict | list):
        text = _canonical(value)
        return _digest_of(text) or text
    if isinstance(value, bool) or value is None:
        return _WORDS[value]
    if isinstance(value, float) and math.isinf(value):
        raise RecordError(_TOO_LARGE)
    return repr(value)  # numbers of a parsed record look in Python as in JSON


def _canonical(value: object) -> str:
    try:
        return safe_files.canonical_text(value)
    except ValueError as error:
        raise RecordError(_TOO_LARGE) from error


def _digest_of(text: str) -> str | None:
    """Digest and length of a large text as JSON text; null for others."""
    # Of ASCII the characters are the bytes: the usual value need not be encoded to be measured.
    if len(text) <= LARGE_VALUE_BYTES and text.isascii():
        return None
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise RecordError("a text is not valid Unicode") from error
    if len(encoded) <= LARGE_VALUE_BYTES:
        return None
    return f'"sha256:{hashlib.sha256(encoded).hexdigest()[:32]}:{len(text)}"'


_WORDS = {True: "true", False: "false", None: "null"}
_quoted = json.encoder.encode_basestring


def error_text(message: object) -> str:
    """Return the message of an error that an API threw; null where the log does not keep it."""
    return ERROR + value_text(message)


def json_records(log: LogFile) -> Iterator[Record]:
    """Read a log of JSON lines, of one JSON object, or of one JSON array."""
    content = document(log)
    if content is None:
        yield from _json_lines(log)
    elif isinstance(content, list):
        for position, element in enumerate(content, start=1):
            yield Record(position, element, None, _beginning(element))
    else:
        yield Record(1, content, None, _beginning(content))


def _beginning(content: object) -> str:
    return json.dumps(content, ensure_ascii=False)[:200]


def _json_lines(log: LogFile) -> Iterator[Record]:
    for line, raw in text_lines(log):
        yield _record(line, raw)


def _record(line: int, raw: bytes) -> Record:
    content, problem = _parsed(raw)
    return Record(line, content, problem, raw[:200].decode("utf-8", "replace"))


def text_lines(log: LogFile) -> Iterator[tuple[int, bytes]]:
    """Lines of a log that are not blank, with their numbers; far too long ones are cut."""
    with log.open() as file:
        number = 0
        while raw := file.readline(MAX_RECORD_BYTES + 1):
            number += 1
            # The rest is read piece by piece and dropped: a line of 200 MB must not be in memory.
            while len(raw) > MAX_RECORD_BYTES and not raw.endswith(b"\n"):
                rest = file.readline(MAX_RECORD_BYTES)
                raw = raw[: MAX_RECORD_BYTES + 1]
                if not rest or rest.endswith(b"\n"):
                    break
            # `json` refuses a text that begins with a byte order mark.
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if raw.strip():
                yield number, raw


def _parsed(raw: bytes) -> tuple[Any, str | None]:
    if len(raw) > MAX_RECORD_BYTES:
        return None, LONG_LINE
    try:
        return record_json(raw), None
    except UnicodeDecodeError:
        return None, NOT_UTF_8
    except RecursionError:
        return None, "nested too deeply"
    except ValueError:
        return None, "not JSON"


def record_json(raw: bytes) -> Any:
    """Parse JSON as `safe_files.strict_json` does; of a member that stands twice the last counts.

    To look for these takes two thirds more time.
    """
    return safe_files.strict_json(raw.decode(), may_repeat=True)


def document(log: LogFile, *, whole: bool = False) -> Any:
    """Content of a log that is one JSON array, or one object over several lines; else null.

    If it is known to be one value as a whole, it may also be one object on a line.
    """
    if log.first_byte not in {b"{", b"["}:
        return None
    # Objects on lines are read one by one, however many: only one value has to be parsed whole.
    if not whole and _begins_with_line(log):
        return None
    with log.open() as file:
        raw = file.read(_MAX_DOCUMENT_BYTES + 1)
    if len(raw) > _MAX_DOCUMENT_BYTES or sum(map(raw.count, _STARTS)) > _MAX_ELEMENTS:
        return None
    try:
        return safe_files.strict_json(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _begins_with_line(log: LogFile) -> bool:
    """Whether the first line that is not blank is a JSON object."""
    with log.open() as file:
        content, problem = _parsed(_first_line(file))
    return problem is None and isinstance(content, dict)


def _first_line(file: IO[bytes]) -> bytes:
    while raw := file.readline(MAX_RECORD_BYTES + 1):
        if raw.strip():
            return raw.removeprefix(b"\xef\xbb\xbf")
    return b""


def first_records(log: LogFile) -> tuple[Any, ...]:
    """Contents of the first good records of a JSON log; empty for logs in another form."""
    if log.first_byte not in {b"{", b"["}:
        return ()
    # A file may be another one under the same name: its state is part of the cache's key.
    stat = log.path.stat()
    return _first_records(log, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1)  # every collector asks the same of a log
def _first_records(log: LogFile, *_changed: int) -> tuple[Any, ...]:
    found = []
    for tried, record in enumerate(json_records(log)):
        if record.problem is None:
            found.append(record.content)
        # Some broken lines at the beginning keep no log from being known, nor is it read through.
        if len(found) == 5 or tried == 100:
            break
    return tuple(found)


def member(record: Mapping[str, Any], name: str) -> Any:
    """Member of a record by its name, or by the names that lead to it, joined by dots."""
    # A name with dots may be that of one member: it comes before the way through several.
    if name in record:
        return record[name]
    content: Any = record
    for part in name.split("."):
        content = opened(content)
        content = content.get(part) if isinstance(content, dict) else None
    return content


def opened(value: object) -> object:
    """Return what a text says that is a JSON object or array; any other value as it is."""
    if isinstance(value, str) and value[:1] in {"{", "["} and value[-1:] in {"}", "]"}:
        try:
            return record_json(value.encode())
        except (ValueError, RecursionError):
            return value
    return value


def text_of(value: object) -> str | None:
    """Return an identifier or a time as text: null, lists and objects are none."""
    if value is None or isinstance(value, bool | dict | list):
        return None
    return str(value)


def leaves(
    source: str, content: Mapping[str, Any], *, depth: int
) -> tuple[dict[str, str], dict[str, str]]:
    """Values of nested members by their APIs, and the members' names, joined by dots, by the same.

    Args:
        source: Whose names they are.
        content: The members.
        depth: How deep to go for names that the vocabulary does not have; below, objects are
            values.
    """
    values: dict[str, str] = {}
    names: dict[str, str] = {}

    def walk(prefix: str, content: Mapping[str, Any], depth: int) -> None:
        for key, value in content.items():
            name = prefix + key
            if name not in aliases and isinstance(value, dict) and value and depth > 1:
                walk(f"{name}.", value, depth - 1)
            else:
                api = api_of(source, name)
                values[api], names[api] = value_text(value), name

    aliases = aliases_of(source)
    walk("", content, depth)
    return values, names


class RecordCollector(ABC):
    """Reads a log record by record; subclasses say what one record means.

    Records name their user in the column that the column map gives (default `user`, also
    `outer.inner`). Where the log has none, each record counts as a row; records that are requests
    do so only where that is said.
    """

    name: ClassVar[str]
    rows_are_requests: ClassVar[bool] = False

    def __init__(self) -> None:
        self.unit: Unit = "user"

    @abstractmethod
    def visit(self, record: Any) -> Visit:
        """Tell what a record says.

        Raises:
            RecordError: The record is not what this collector reads.
        """

    @abstractmethod
    def recognises_record(self, record: Any) -> bool:
        """Whether a record has the shape that this collector reads."""

    def quick_visit(self, raw: bytes, user: str, time: str) -> Visit | None:  # noqa: ARG002 -- for subclasses
        """Tell what a line of JSON says without parsing all of it; null where `visit` must.

        Args:
            raw: The line.
            user, time: Names of the members that tell the user and the time.
        """
        return None

    def records(self, log: LogFile) -> Iterator[Record]:
        """Split the log into records."""
        return json_records(log)

    def first(self, log: LogFile) -> Sequence[Any]:
        """Contents of the first good records; empty for logs in another form."""
        return first_records(log)

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:  # noqa: ARG002 -- the contract of collectors names it
        """Whether one of the first records has the shape that this collector reads."""
        return any(self.recognises_record(record) for record in self.first(log))

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log: its rows are written to temporary files, for the store to select."""
        self.unit = self.unit_of(log, column_map)
        table = RowTable()
        absent = column_map.absent
        for line, visit in self._visits(log):
            try:
                table.add(line, _without(absent, visit()))
            except RecordError as error:
                table.add_problem(line, str(error))
        self._lines = table.lines
        self._table = table  # keeps the temporary files
        # Rows and visitors are named here, by no member of the log.
        named = table.fields - ({"user"} if self.unit != "user" else set())
        return replace(table.scan(log), fields={name: self._fields[name] for name in sorted(named)})

    def _visits(self, log: LogFile) -> Iterator[tuple[int, Callable[[], Visit]]]:
        """Lines of the log, and what each says or why it cannot be used."""
        # Rows and visitors are named by the parsed record, which the quick way does not make.
        if self._is_quick and self.unit == "user" and _begins_with_line(log):
            for line, raw in text_lines(log):
                yield line, partial(self._visit_of_line, log, line, raw)
            return
        for record in self.records(log):
            yield record.line, partial(self._complete, log, record)

    @property
    def _is_quick(self) -> bool:
        return type(self).quick_visit is not RecordCollector.quick_visit

    def _visit_of_line(self, log: LogFile, line: int, raw: bytes) -> Visit:
        quick = None
        if len(raw) <= MAX_RECORD_BYTES:
            quick = self.quick_visit(raw, self._fields["user"], self._fields["time"])
        return quick or self._complete(log, _record(line, raw))

    def unit_of(self, log: LogFile, column_map: ColumnMap) -> Unit:
        """Return who a row is.

        Raises:
            InputError: Records are requests, and nobody said it.
        """
        self._fields = {name: column_map.name_of(name) for name in ("user", "time", *IDS)}
        said = column_map.columns.get("user")
        if column_map.visitor:
            return "visitor"
        if said not in (None, "row"):
            return "user"
        if any(self.names_user(record) for record in self.first(log)):
            return "user"
        if said is None and (self.rows_are_requests or self._tells_of_requests(log)):
            raise refuse_requests(log.label, self.name)
        return "row"

    def names_user(self, record: Any) -> bool:
        """Whether a record names its user."""
        return isinstance(record, dict) and member(record, self._fields["user"]) is not None

    def _tells_of_requests(self, log: LogFile) -> bool:
        return any(
            isinstance(record, dict) and are_named_as_requests(record) for record in self.first(log)
        )

    def visitor_of(self, record: Any) -> Sequence[str] | None:
        """Tell a visitor by a record, as `unit.visitor_of` does; null where it does not."""
        if not isinstance(record, dict):
            return None
        return visitor_of(
            time=record.get("time"),
            cookie=record.get("user"),
            address=record.get("host"),
            agent=record.get(USER_AGENT),
        )

    def _complete(self, log: LogFile, record: Record) -> Visit:
        if record.problem is not None:
            raise RecordError(record.problem)
        try:
            visit = self.visit(record.content)
        except RecursionError as error:
            raise RecordError("nested too deeply") from error
        if not visit.values:
            raise RecordError("no value of an API")
        outer = record.content if isinstance(record.content, dict) else {}
        time = (
            visit.time or text_of(member(outer, self._fields["time"])) or self._day_and_time(outer)
        )
        view, session = (text_of(member(outer, self._fields[name])) for name in IDS)
        return replace(
            visit, user=self._user(log, record, visit), time=time, visit_id=view, session_id=session
        )

    def _user(self, log: LogFile, record: Record, visit: Visit) -> str | None:
        """Name the user, the visitor or the row; an address goes no further than its digest."""
        if self.unit == "row":
            # Place and content: rows of a log that has grown keep their names.
            text = _canonical(record.content)
            content = hashlib.sha256(text.encode("utf-8", "replace"))
            return f"{log.origin}#{record.line}#{content.hexdigest()}"
        if self.unit == "user":
            outer = record.content if isinstance(record.content, dict) else {}
            return visit.user or text_of(member(outer, self._fields["user"]))
        visitor_parts = self.visitor_of(record.content)
        if visitor_parts is None:
            raise RecordError(f"does not tell {visitor_rule(self.name)}")
        named = VISITOR_SEPARATOR.join(visitor_parts)
        return hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()

    def _day_and_time(self, outer: Mapping[str, Any]) -> str | None:
        """Join what `--time date,time` names; null where a part is missing."""
        names = self._fields["time"].split(",")
        parts = [text_of(member(outer, name.strip())) for name in names]
        return " ".join(filter(None, parts)) if len(parts) > 1 and all(parts) else None

    def locate(
        self,
        log: LogFile,
        rows: Mapping[int, str],
        refused: Sequence[Refused],  # noqa: ARG002 -- every record is a row of the scan
    ) -> list[Reject]:
        """Find the records that could not be stored."""
        reasons = {self._lines[row]: reason for row, reason in rows.items()}
        found = []
        for record in self.records(log):
            if record.line in reasons:
                found.append(Reject(record.line, reasons[record.line], excerpt(record.text)))
                if len(found) == len(rows):
                    break
        return found


def _without(absent: frozenset[str], visit: Visit) -> Visit:
    """Return a visit without what is one of some texts that stand for a missing value.

    Raises:
        RecordError: Nothing is left.
    """
    if not absent:
        return visit
    texts = json_texts(absent)
    values = {api: value for api, value in visit.values.items() if value not in texts}
    if not values:
        raise RecordError("no value of an API")
    user, time = (None if text in absent else text for text in (visit.user, visit.time))
    return replace(visit, values=values, user=user, time=time)


@dataclass
class RowTable:
    """A wide table on disk, one row a record, grown part by part."""

    lines: array[int] = field(default_factory=lambda: array("q"))  # Line of each row.
    fields: set[str] = field(default_factory=set)  # Which of `user` and `time` some row has.
    _not_taken: dict[str, NotTaken] = field(default_factory=dict)
    _paths: dict[str, str] = field(default_factory=dict)
    _columns: dict[str, int] = field(default_factory=dict)
    _own: int = 0  # columns that the vocabulary does not have
    _rows: list[tuple[str | None, Visit | None]] = field(default_factory=list)
    _bytes: int = 0
    _parts: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Gone with the table: the store reads the files after `scan` has returned.
        self._folder = Path(tempfile.mkdtemp(prefix="fpmonitor-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def add(self, line: int, visit: Visit) -> None:
        """Add the row of a record.

        Raises:
            RecordError: It brings more APIs than a log may have.
        """
        fresh = [api for api in visit.values if api not in self._columns]
        own = sum(api not in known_apis() for api in fresh)  # there is room for the others
        if self._own + own > MAX_APIS:
            raise RecordError(f"more than {MAX_APIS} APIs in one log")
        self._own += own
        for api in fresh:
            self._columns[api] = len(self._columns)
            self._paths |= {api: visit.paths[api]} if api in visit.paths else {}
        for path, why in visit.not_taken.items():
            records = self._not_taken[path].records if path in self._not_taken else 0
            if records or len(self._not_taken) < MAX_APIS:  # names may be data
                self._not_taken[path] = NotTaken(why, records + 1)
        self.fields.update(name for name in ("user", "time") if getattr(visit, name) is not None)
        self._append(line, None, visit, sum(map(len, visit.values.values())))

    def add_problem(self, line: int, problem: str) -> None:
        """Add the row of a record that cannot be used."""
        self._append(line, problem, None, 0)

    def _append(self, line: int, problem: str | None, visit: Visit | None, size: int) -> None:
        # Broken records are rows, too: a reject is found by the place of its row.
        self.lines.append(line)
        self._rows.append((problem, visit))
        self._bytes += size
        if len(self._rows) >= _PART_RECORDS or self._bytes >= _PART_BYTES:
            self._write_part()

    def _write_part(self) -> None:
        visits = [visit for _, visit in self._rows]
        columns: dict[str, list[str | None]] = {
            "problem": [problem for problem, _ in self._rows],
            "user": [visit.user if visit else None for visit in visits],
            "time": [visit.time if visit else None for visit in visits],
            "source": [visit.source if visit else None for visit in visits],
            "visit_id": [visit.visit_id if visit else None for visit in visits],
            "session_id": [visit.session_id if visit else None for visit in visits],
        }
        for api, number in self._columns.items():
            columns[f"c{number}"] = [visit.values.get(api) if visit else None for visit in visits]
        import polars as pl  # noqa: PLC0415 -- slow to load

        path = self._folder / f"{len(self._parts)}.parquet"
        frame = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
        frame.write_parquet(path, compression="lz4", statistics=False)
        self._parts.append(path)
        self._rows, self._bytes = [], 0

    def scan(self, log: LogFile) -> Scan:
        """SELECT of all rows in their order.

        Raises:
            InputError: There is no API.
        """
        self._write_part()
        if not self._columns:
            raise InputError(f"{log.label}: no record has a value of an API")
        # Each part has the columns that were known by then: what it lacks is absent.
        parts = ", ".join(quote_text(str(path)) for path in self._parts)
        values = ", ".join(f"c{number} AS v{number}" for number in self._columns.values())
        return Scan(
            f'SELECT problem, "user", "time", source, visit_id, session_id, {values} '  # noqa: S608 -- names are numbered, paths quoted
            f"FROM read_parquet([{parts}], union_by_name = true)",
            tuple(self._columns),
            values_are_json=True,
            not_taken=self._not_taken,
            paths=self._paths,
            names_visits=True,
        )
