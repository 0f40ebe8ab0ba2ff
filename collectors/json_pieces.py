"""Wide JSON lines read in pieces: records share most of theirs, and each piece is parsed once.

A JSON object is its members joined by commas. So where a line is cut at commas, and each piece is
the text of some members when it is parsed as an object of its own, the line is an object that has
all of them and no others. Nothing is lost where a record is not like the first one: then its
pieces are not those members, and the log has to be read in another way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import duckdb
import polars as pl

from fpmonitor.collectors.codes import Codes, joined
from fpmonitor.collectors.json_lines import leaves_of, pointer
from fpmonitor.collectors.tables import ATTRIBUTES, select_fields
from fpmonitor.duckdb_connection import ArrowStream, in_memory
from fpmonitor.logs.contract import InexactReadingError
from fpmonitor.sql import quote_name, quote_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fpmonitor.collectors.tables import Column
    from fpmonitor.logs.log_file import LogFile

_MEMBERS_OF_A_PIECE = 4  # few, so that many records share it
_MAX_PIECES = 32
_BATCH_BYTES = 1 << 25
_BATCH_ROWS = 1 << 15
_PARTS_OF_A_BATCH = 4
_MOST_LONGER = 8
_BLANKS = " \t\r\n"
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of the first record: its name, and the text of the line up to its value."""

    name: str
    mark: str


@dataclass(frozen=True, slots=True)
class _Piece:
    """Members that stand together, the mark of the first, and whether their text is coded."""

    names: Sequence[str]
    mark: str
    is_coded: bool


def first_members(log: LogFile) -> list[str]:
    """Names of the members of the first record; none if the log cannot be read in pieces."""
    names = [member.name for member in _first_record(_lines_of_head(log))]
    unfit = ATTRIBUTES in names or "" in names
    return [] if unfit or len({*names}) < len(names) else names


def _lines_of_head(log: LogFile) -> list[str]:
    """Lines at the beginning of a log that are not blank, without one that was cut."""
    lines = log.head.decode("utf-8", "replace").split("\n")
    whole = lines[:-1] if len(lines) > 1 else lines
    return [line for line in whole if line.strip(_BLANKS)]


def _first_record(lines: Sequence[str]) -> list[_Member]:
    return next(filter(None, map(_members, lines)), [])


def _members(line: str) -> list[_Member]:
    """Members of a line; none if it is not an object that has any."""
    members = []
    try:
        place = _after_blanks(line, 0)
        while line[place] in "{,":
            start, place = place, _after_blanks(line, place + 1)
            name, place = _DECODER.raw_decode(line, place)
            place = _after_blanks(line, place) + 1
            members.append(_Member(name, line[start:place]))
            _, place = _DECODER.raw_decode(line, _after_blanks(line, place))
            place = _after_blanks(line, place)
        is_whole = line[place:].rstrip(_BLANKS) == "}"
    except (ValueError, IndexError, RecursionError):
        return []
    return members if is_whole else []


def _after_blanks(line: str, place: int) -> int:
    while line[place] in _BLANKS:
        place += 1
    return place


class JsonPieces:
    """Rows of a log of JSON lines: the codes of its pieces, and those that name the user as text.

    Parameters
    ----------
    log
        A log that has `first_members`.
    fields
        Field (`user`, `time`, `source`) -> member.
    apis
        Members that are APIs, or leaves of some, in the order of the columns v0, v1, ...
    null_is_value
        Whether a JSON null is a value, rather than absent.
    leaves
        Member -> its leaves, as the head of the log shows; empty where objects are values.
    """

    def __init__(
        self,
        log: LogFile,
        fields: Mapping[str, str],
        apis: Sequence[Column],
        *,
        null_is_value: bool,
        leaves: Mapping[str, Sequence[Column]],
    ) -> None:
        self._log = log
        self._fields = fields
        self._apis = apis
        self._null_is_value = null_is_value
        self._leaves = leaves
        self._lines = _lines_of_head(log)
        self._mean_length = sum(map(len, self._lines)) // len(self._lines)
        self._pieces = _cut(_first_record(self._lines), {*fields.values()}, len(apis))
        self._coded = [i for i, piece in enumerate(self._pieces) if piece.is_coded]
        self._codes = Codes(f"p{i}" for i in self._coded)
        self._home = {name: i for i, piece in enumerate(self._pieces) for name in piece.names}
        self._dictionaries: dict[str, pl.DataFrame] = {}

    @property
    def shape(self) -> tuple[object, ...]:
        """All that tells how records are read: logs that have it in common may be read as one."""
        return self._fields, self._apis, self._leaves, self._null_is_value, self._pieces

    @property
    def names(self) -> tuple[str, ...]:
        """The APIs, in the order of the columns v0, v1, ..."""
        return tuple(api.name for api in self._apis)

    @property
    def columns(self) -> list[str]:
        """For each API the column that holds its codes; APIs of one piece share one."""
        return [f"p{self._home[api.steps[0]]}" for api in self._apis]

    @property
    def select(self) -> str:
        """How the store reads a batch; a piece of text that is not its members is an error."""
        texts = select_fields(
            {
                field: f"struct_extract(object{self._home[member]}, {quote_text(member)})"
                for field, member in self._fields.items()
            }
        )
        codes = ", ".join(dict.fromkeys(self.columns))
        objects = ", ".join(
            f"{self._object(i, 'VARCHAR')} AS object{i}"
            for i, piece in enumerate(self._pieces)
            if not piece.is_coded
        )
        return (
            f"SELECT NULL::VARCHAR AS problem, {texts}, {codes} "  # noqa: S608 -- names are quoted
            f"FROM (SELECT *, {objects} FROM coded_batch)"
        )

    def _object(self, i: int, kind: str) -> str:
        """Piece `p<i>` in SQL as a struct; DuckDB refuses members too many, too few, or twice."""
        opening = "" if i == 0 else "'{' || "
        closing = "" if i == len(self._pieces) - 1 else " || '}'"
        members = ", ".join(f"{quote_name(name)} {kind}" for name in self._pieces[i].names)
        return f"({opening}p{i}{closing})::JSON::STRUCT({members})"

    def batches(self) -> Iterator[pl.DataFrame]:
        """Read the log; each batch has columns p0, p1, ...: texts, or codes (UInt32).

        Raises
        ------
        InexactReadingError
            A record is not like the first one, or the pieces seldom repeat.
        OSError
            The log cannot be read.
        """
        seen = 0
        batch = max(min(_BATCH_BYTES // self._mean_length, _BATCH_ROWS), 1)
        try:
            self._check_head()
            stream = self._stream().collect_batches(chunk_size=batch, maintain_order=True)
            with in_memory() as connection:
                for frame in joined(stream, _PARTS_OF_A_BATCH):
                    seen += frame.height * self._mean_length
                    self._codes.check_they_repeat(seen)
                    yield _without_unfit(connection, frame)
                for i in self._coded:
                    self._parse(connection, i)
        except (duckdb.Error, pl.exceptions.PolarsError) as error:
            raise InexactReadingError from error

    def _check_head(self) -> None:
        """Check that the first records look like the very first, before any effort."""
        for line in self._lines:
            places = [line.find(piece.mark) for piece in self._pieces[1:]]
            fits = all(place < after for place, after in pairwise([0, *places]))
            if not fits and _members(line):
                raise InexactReadingError

    def _stream(self) -> pl.LazyFrame:
        line = pl.col("line")
        longest = max(_MOST_LONGER * self._mean_length, _BATCH_BYTES // _BATCH_ROWS)
        marks = [piece.mark for piece in self._pieces[1:]]
        places = [pl.col(f"place{i}") for i in range(1, len(self._pieces))]
        ascending = [first < second for first, second in pairwise([pl.lit(0), *places])]
        starts = [pl.lit(0), *(place + 1 for place in places)]
        lengths = [end - start for start, end in zip(starts, places, strict=False)]
        texts = [
            line.cast(pl.Binary).bin.slice(start, length).cast(pl.String)
            for start, length in zip(starts, [*lengths, None], strict=True)
        ]
        closed = [
            ~_ends_in_comma(text)
            for text, piece in zip(texts, self._pieces, strict=True)
            if not piece.is_coded
        ]
        fits = pl.all_horizontal(*ascending).fill_null(value=False)
        return (
            pl.scan_lines(self._log.path, name="line", glob=False)
            # A batch of many long lines would take any amount of memory.
            .select(pl.when(line.str.len_bytes() <= longest).then(line))
            .with_columns(
                line.str.find(mark, literal=True).alias(f"place{i}")
                for i, mark in enumerate(marks, start=1)
            )
            .with_columns(pl.when(fits).then(line), pl.when(~fits).then(line).alias("unfit"))
            .select(
                pl.all_horizontal(*closed).fill_null(value=False).alias("fits"),
                "unfit",
                *(self._coded_text(i, text).alias(f"p{i}") for i, text in enumerate(texts)),
            )
        )

    def _coded_text(self, i: int, text: pl.Expr) -> pl.Expr:
        if not self._pieces[i].is_coded:
            return text
        return text.cast(self._codes.dtype(f"p{i}")).to_physical()

    def _parse(self, connection: duckdb.DuckDBPyConnection, i: int) -> None:
        """Parse the texts of a piece.

        Raises
        ------
        InexactReadingError
            One ends in a comma, which DuckDB takes at the end of an object.
        duckdb.Error
            One is not the members of the piece.
        """
        table = self._codes.table(f"p{i}")
        if table.select(_ends_in_comma(pl.col(f"p{i}")).any()).item():
            raise InexactReadingError
        names = self._pieces[i].names
        apis = [(at, api) for at, api in enumerate(self._apis) if api.steps[0] in names]
        cells = ", ".join(
            [f"struct_extract(object, {quote_text(name)})::VARCHAR" for name in names]
            + [self._cell(api) for _, api in apis]
        )
        connection.register("piece", ArrowStream(table))
        rows = connection.execute(
            f"SELECT code, {cells} FROM (SELECT code, {self._object(i, 'JSON')} AS object FROM piece)"  # noqa: E501, S608 -- names are quoted
        ).fetchall()
        for place, name in enumerate(names, start=1):
            self._check_leaves(name, [row[place] for row in rows])
        codes = pl.Series("code", [row[0] for row in rows], pl.UInt32)
        parsed = [
            pl.DataFrame([codes, pl.Series("raw", [row[place] for row in rows], pl.String)]).select(
                pl.lit(at, pl.UInt32).alias("position"), "code", "raw"
            )
            for place, (at, _) in enumerate(apis, start=1 + len(names))
        ]
        if parsed:
            self._dictionaries[f"p{i}"] = pl.concat(parsed).drop_nulls("raw")

    def _cell(self, api: Column) -> str:
        """JSON text of an API in SQL; a null that stands for a whole object is absent."""
        member = f"struct_extract(object, {quote_text(api.steps[0])})"
        if not api.path:
            empty = "'null'" if self._null_is_value else "NULL"
            return f"COALESCE({member}::VARCHAR, {empty})"
        leaf = f"json_extract({member}, {quote_text(pointer(api.steps[1:]))})::VARCHAR"
        return leaf if self._null_is_value else f"NULLIF({leaf}, 'null')"

    def _check_leaves(self, name: str, texts: Sequence[str | None]) -> None:
        """Check that a member has the leaves that the head of the log shows.

        Raises
        ------
        InexactReadingError
            It has not.
        """
        nested = [text for text in texts if text and text.startswith("{")]
        if name not in self._leaves or not (nested or self._leaves[name][0].path):
            return
        try:
            values = [None if text is None else json.loads(text) for text in texts]
        except (ValueError, RecursionError) as error:
            raise InexactReadingError from error
        if leaves_of(name, values) != list(self._leaves[name]):
            raise InexactReadingError

    def dictionary(self, column: str) -> pl.DataFrame:
        """Tell what the codes of a column stand for, once all batches were read.

        Columns `position` (UInt32; which API), `code` (UInt32) and `raw` (String, JSON text); an
        API of which a code tells nothing is absent.
        """
        return self._dictionaries[column]


def _without_unfit(connection: duckdb.DuckDBPyConnection, frame: pl.DataFrame) -> pl.DataFrame:
    """Leave out blank lines, and make rows without a user of lines that are no JSON object.

    Raises
    ------
    InexactReadingError
        A line is a record all the same.
    """
    if not frame["fits"].all():
        is_blank = pl.col("unfit").str.strip_chars(_BLANKS) == ""
        frame = frame.filter(pl.col("fits") | ~is_blank.fill_null(value=False))
        unfit = frame.filter(~pl.col("fits")).select("unfit")
        connection.register("unfit", ArrowStream(unfit))
        records = connection.execute(
            "SELECT count(*) FROM unfit WHERE unfit IS NULL OR TRY_CAST(unfit AS JSON) IS NOT NULL"
        ).fetchall()
        if records[0][0]:
            raise InexactReadingError
    return frame.drop("fits", "unfit")


def _ends_in_comma(text: pl.Expr) -> pl.Expr:
    return text.str.strip_chars_end(_BLANKS + "}").str.ends_with(",")


def _cut(members: Sequence[_Member], fields: Collection[str], apis: int) -> list[_Piece]:
    """Cut a record: the fields apart from the others, and these into pieces of a few."""
    most = max(_MEMBERS_OF_A_PIECE, -(-apis // _MAX_PIECES))
    pieces: list[_Piece] = []
    names: list[str] = []
    for member in members:
        is_coded = member.name not in fields
        if pieces and pieces[-1].is_coded == is_coded and not (is_coded and len(names) >= most):
            names.append(member.name)
            continue
        names = [member.name]
        pieces.append(_Piece(names, member.mark, is_coded))
    return pieces
