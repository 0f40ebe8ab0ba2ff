"""Text logs of servers as tables: a line is a row, and its fields are columns."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from array import array
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import compress, islice
from operator import not_
from pathlib import Path
from typing import TYPE_CHECKING

from fpmonitor.collectors.log_forms import (
    CAPTURED,
    MOST_FIELDS,
    REST,
    USER_AGENT,
    fields_form,
    form_of,
    known_forms,
    unnamed_form,
)
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import excerpt
from fpmonitor.logs.contract import NOT_UTF_8, Reject
from fpmonitor.logs.log_file import MAX_RECORD_BYTES
from fpmonitor.sql import quote_path
from fpmonitor.value_forms import AGENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import polars as pl

    from fpmonitor.collectors.log_forms import LineForm
    from fpmonitor.logs.log_file import LogFile

PROBLEM = "what is wrong with the line"
_NO_FORM = "not a line of a known log format"
_MAX_LINE = 32_000  # characters: servers take requests of 8 to 24 kB
_TOO_LONG = f"longer than {_MAX_LINE:,} characters"
_BLOCK = 1 << 24
_SAMPLE = 1000  # lines by which a form is recognised
_FIELDS, _DATE = "#Fields:", "#Date:"
_PRODUCT = r"^[A-Za-z]+/\d"  # a user agent begins with one, also that of a tool
_IN_PLACE = 0.05  # of the lines with a user agent
_PORT = r":\d+$"
_CONTROL = r"[\x00-\x08\x0a-\x1f\x7f]"  # but tabs, between fields


@dataclass
class TextTable:
    """A text log that became a table in temporary files."""

    # Its columns; one more, `PROBLEM`, is null where the line can be used.
    names: dict[str, None] = field(default_factory=dict)
    lines: array[int] = field(default_factory=lambda: array("q"))  # Line of each row.
    _parts: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fpmonitor-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    @property
    def relation(self) -> str:
        """What stands behind FROM."""
        return f"read_parquet([{', '.join(map(quote_path, self._parts))}], union_by_name = true)"

    def add(self, lines: Sequence[int], frame: pl.DataFrame) -> None:
        """Add rows, and the line of each."""
        self.lines.extend(lines)
        self.names.update(dict.fromkeys(name for name in frame.columns if name != PROBLEM))
        path = self._folder / f"{len(self._parts)}.parquet"
        frame.write_parquet(path, compression="lz4", statistics=False)
        self._parts.append(path)


def forms_of(log: LogFile, given: str = "") -> tuple[LineForm, ...]:
    """Forms of the first lines of a log, the most frequent first; none for other logs.

    Args:
        given: A `log_format` or `LogFormat`; empty to recognise the form.
    """
    head = log.head
    if head[:4] == b"PAR1" or b"\0" in head[:4096] or head.lstrip()[:1] in {b"{", b""}:
        return ()
    return _forms_of(head, given)


@lru_cache(maxsize=2)  # without a given form, and with it: every collector asks
def _forms_of(head: bytes, given: str) -> tuple[LineForm, ...]:
    lines = list(islice(filter(None, head.decode("utf-8-sig", "replace").splitlines()), _SAMPLE))
    headers = [] if given else [i for i, line in enumerate(lines[:20]) if line.startswith(_FIELDS)]
    if headers:
        below = (line for line in lines[headers[0] :] if not line.startswith("#"))
        return (_form_below(lines[headers[0]], next(below, "")),)
    forms = [form_of(given)] if given else known_forms()
    lines = [line[:_MAX_LINE].strip() for line in lines]
    found = [
        (-len(fitting), _with_captured(form, fitting)) for form, fitting in _fitting(lines, forms)
    ]
    usual = tuple(form for _, form in sorted(found, key=lambda pair: pair[0]))
    if not given and not (usual and _shows_agents(usual[0], lines)):
        unnamed = unnamed_form(lines)
        return usual if unnamed is None else (unnamed,)
    return usual


def _shows_agents(form: LineForm, lines: Sequence[str]) -> bool:
    """Whether the form has a field of user agents, where one in 20 lines with any has it.

    Many a `log_format` of a site begins as a usual one, and has other fields behind: no line has it
    there then. Not most lines need to: any stranger can send a user agent in another header, such
    as `Referer`. Lines without one, and captured headers, speak against no form.
    """
    with_agent = [line for line in lines if AGENT.search(line)]
    if form.captured or not with_agent:
        return True
    if USER_AGENT not in form.names:
        return False
    import polars as pl  # noqa: PLC0415 -- slow to load

    # The form is matched by Polars: a line of a stranger can keep `re` busy for hours.
    cells = _cells(pl.Series(with_agent, dtype=pl.String), form)[USER_AGENT]
    return sum(map(bool, map(AGENT.search, cells.drop_nulls()))) >= _IN_PLACE * len(with_agent)


def _fitting(
    lines: Sequence[str], forms: Sequence[LineForm]
) -> Iterator[tuple[LineForm, list[str]]]:
    """Lines of each form, of those that are of none before it."""
    with in_memory() as connection:  # Polars takes longer to load than most logs to be recognised
        rest = list(lines)
        for form in forms:
            [(fits,)] = connection.execute(
                "SELECT list_transform($lines::VARCHAR[], lambda one: regexp_matches(one, $form))",
                {"lines": rest, "form": form.pattern},
            ).fetchall()
            if any(fits):
                yield form, list(compress(rest, fits))
                rest = list(compress(rest, map(not_, fits)))


def head_sample(log: LogFile, given: str = "") -> dict[str, list[str]]:
    """Texts of the fields of the first lines; errors as of `forms_of`."""
    forms = forms_of(log, given)
    lines = [line.strip() for line in log.head.decode("utf-8-sig", "replace").splitlines()]
    is_headed = any(form.is_headed for form in forms)
    lines = [line for line in lines if line and not (is_headed and line.startswith("#"))]
    frame = _frame(lines[:_SAMPLE], forms)
    return {name: frame[name].drop_nulls().to_list() for name in frame.columns if name != PROBLEM}


def _form_below(fields: str, first: str) -> LineForm:
    """Form of the lines below a `#Fields`, of which this is the first."""
    return fields_form(fields.removeprefix(_FIELDS).split(), "\t" if "\t" in first else " ")


def _with_captured(form: LineForm, lines: Sequence[str]) -> LineForm:
    """Name the headers that HAProxy captured; of the user agent the values tell the place."""
    if CAPTURED not in form.names:
        return form
    import polars as pl  # noqa: PLC0415 -- slow to load

    cells = _cells(pl.Series(lines, dtype=pl.String), form)[CAPTURED].drop_nulls().str.split("|")
    captured = min(max(cells.list.len().to_list(), default=0), MOST_FIELDS)
    names = [f"{CAPTURED}.{place}" for place in range(captured)]
    agents = [
        int(cells.list.get(place, null_on_oob=True).str.contains(_PRODUCT).sum())
        for place in range(len(names))
    ]
    if any(agents):
        names[agents.index(max(agents))] = USER_AGENT
    return replace(form, captured=tuple(names))


def read_text_log(log: LogFile, given: str = "") -> TextTable:
    """Read a text log into a table; errors as of `forms_of`."""
    table = TextTable()
    for first, lines, forms, day in _pieces(log, forms_of(log, given)):
        numbers = [first + place for place, line in enumerate(lines) if line]
        if numbers:
            frame = _frame([line for line in lines if line], forms)
            lacks_day = day is not None and "date" not in frame.columns
            table.add(numbers, frame.with_columns(date=day) if lacks_day else frame)
    return table


def _pieces(
    log: LogFile, forms: tuple[LineForm, ...]
) -> Iterator[tuple[int, list[str], tuple[LineForm, ...], pl.Expr | None]]:
    """Lines of one form, the number of the first, and the day that a header above them names."""
    import polars as pl  # noqa: PLC0415 -- slow to load

    is_headed = any(form.is_headed for form in forms)
    day = None
    for first, lines in _blocks(log):
        start, fields = 0, ""
        for place, line in enumerate(lines) if is_headed else ():
            if not line.startswith("#"):
                if fields and line:
                    forms, fields = (_form_below(fields, line),), ""
                continue
            yield first + start, lines[start:place], forms, day
            start = place + 1
            # A server that is told other fields goes on in the same file. Their form is made below
            # them: a file may have a million such lines.
            if line.startswith(_FIELDS):
                fields = line
            if line.startswith(_DATE) and (date := line.removeprefix(_DATE).split()):
                day = pl.lit(date[0])
        if fields:
            forms = (_form_below(fields, ""),)
        yield first + start, lines[start:], forms, day


def _blocks(log: LogFile) -> Iterator[tuple[int, list[str]]]:
    """Lines of the log without white space around them, block by block, and the first's number."""
    number, rest = 1, b""
    with log.open() as file:
        while block := file.read(_BLOCK):
            whole, end, rest = (rest + block).rpartition(b"\n")
            rest = rest[: MAX_RECORD_BYTES + 1]  # a longer line is rejected by its beginning
            if end:
                lines = _decoded(whole, is_first=number == 1)
                yield number, lines
                number += len(lines)
    if rest.strip():
        yield number, _decoded(rest, is_first=number == 1)


def _decoded(block: bytes, *, is_first: bool) -> list[str]:
    text = block.decode("utf-8-sig" if is_first else "utf-8", "replace")
    # Not `splitlines`: it ends lines at U+2028 and form feeds, too, and would count more of them.
    return [line.strip() for line in text.split("\n")]


def _frame(lines: list[str], forms: Sequence[LineForm]) -> pl.DataFrame:
    """Fields of lines, in their order; the forms are tried one after the other."""
    import polars as pl  # noqa: PLC0415 -- slow to load

    rest = pl.DataFrame({"line": lines}, schema={"line": pl.String}).with_row_index("place")
    line = pl.col("line")
    flaw = (
        pl.when(line.str.len_chars() > _MAX_LINE)
        .then(pl.lit(_TOO_LONG))
        .when(line.str.contains("\ufffd", literal=True))
        .then(pl.lit(NOT_UTF_8))
        .when(line.str.contains(_CONTROL))
        .then(pl.lit("holds control characters"))
    )
    rest = rest.with_columns(flaw.alias(PROBLEM))
    found = [rest.filter(pl.col(PROBLEM).is_not_null()).drop("line")]
    rest = rest.filter(pl.col(PROBLEM).is_null()).drop(PROBLEM)
    for form in forms:
        cells = _cells(rest["line"], form).with_columns(rest["place"])
        is_read = cells[form.names[0]].is_not_null()
        found.append(_undone(cells.filter(is_read), form))
        rest = rest.filter(~is_read)
    found.append(rest.select("place", pl.lit(_NO_FORM).alias(PROBLEM)))
    # In the order of the log, in which rejects are located; fields that a form lacks are null.
    return pl.concat(found, how="diagonal").sort("place").drop("place")


def _cells(lines: pl.Series, form: LineForm) -> pl.DataFrame:
    fields = lines.str.extract_groups(form.pattern).struct.rename_fields(list(form.names))
    return fields.struct.unnest()


def _undone(frame: pl.DataFrame, form: LineForm) -> pl.DataFrame:
    """Undo the escapes of headers; take apart what HAProxy captured, and addresses with a port."""
    import polars as pl  # noqa: PLC0415 -- slow to load

    if form.captured:
        parts = pl.col(CAPTURED).str.split("|")
        frame = frame.with_columns(
            parts.list.get(place, null_on_oob=True).alias(name)
            for place, name in enumerate(form.captured)
        ).drop(CAPTURED)
    if "client" in frame.columns:
        host = pl.col("client").str.replace(_PORT, "").alias("host")
        frame = frame.with_columns(host).drop("client")
    columns = [
        frame[name].replace(_changed(frame[name], form))
        for name in frame.columns
        if name != "place" and name not in _AS_LOGGED
    ]
    return frame.with_columns(columns)


_AS_LOGGED = {REST, "request", "http:referer"}  # of which nothing is stored


def _changed(cells: pl.Series, form: LineForm) -> dict[str, str]:
    """Texts that change when their escapes are undone, of which few are different."""
    texts = cells.drop_nulls().unique().to_list()
    return {text: undone for text in texts if (undone := form.unescaped(text)) != text}


def locate_lines(log: LogFile, table: TextTable, rows: Mapping[int, str]) -> list[Reject]:
    """Find the lines of rows that could not be stored."""
    reasons = {table.lines[row]: reason for row, reason in rows.items()}
    found: list[Reject] = []
    for first, lines in _blocks(log):
        found += [
            Reject(number, reasons[number], excerpt(line))
            for number, line in enumerate(lines, start=first)
            if number in reasons
        ]
        if len(found) == len(rows):
            break
    return found
