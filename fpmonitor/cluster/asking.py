"""The text of all that is asked of rows elsewhere, in the dialect of whoever holds them.

SQL of `queries/` is written for DuckDB, and sqlglot translates it; what it does not know is a
function of ours here, with its text in each dialect.

One statement counts the groups of sets of columns, for whoever may run it: nothing but counts is in
its answer, which `answered.py` reads. Others fetch rows: visits for a database, and fingerprints
for a sketch.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from fpmonitor.errors import InputError, excerpt, install, reason_of
from fpmonitor.sql import quote_name, quote_path, quote_text, statement
from fpmonitor.unit import Unit  # noqa: TC001 -- msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

Dialect = Literal[
    "bigquery", "clickhouse", "databricks", "duckdb", "postgres", "snowflake", "spark", "trino"
]
DIALECTS: tuple[str, ...] = get_args(Dialect)
# Others would find the latest rows anew for each set. Postgres keeps them: by grouping sets it
# takes 1.3 times as long for 100 sets, and Spark multiplies its rows.
_GROUPING_SETS = frozenset(("bigquery", "clickhouse", "duckdb", "snowflake", "trino"))
# Of a BIGINT, which all dialects have.
_MOST_GROUPED = 60  # columns: each has a bit of a number
_QUERY = re.compile(r"\s*\(?\s*(SELECT|WITH|FROM)\s", re.IGNORECASE)
MAX_PARTS = 1 << 16  # of the users
_PART = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?/([0-9]{1,5})")
AT_ONCE = 8  # candidates, of which all sets are asked in one statement
_NOBODY = "CASE WHEN CAST({0} AS VARCHAR) = '' THEN NULL ELSE {0} END"
# What is not a number is absent; dialects write it in two ways.
_NO_NUMBER = "CASE WHEN CAST({0} AS VARCHAR) IN ('NaN', 'nan') THEN NULL ELSE {0} END"
# A value as a text that is ordered by its bytes, not as in a language.
_TEXT_ORDER = {
    "clickhouse": "CAST({0} AS Nullable(String))",
    "postgres": 'CAST({0} AS VARCHAR) COLLATE "C"',
    "": "CAST({0} AS VARCHAR)",
}
_FIRST_DIGITS = "substr(sha2({0}, 256), 1, 8)"
# The first 32 bits of SHA-256 of a text, as a whole number.
_HASH_NUMBER = {
    "bigquery": "CAST(CONCAT('0x', SUBSTR(TO_HEX(SHA256({0})), 1, 8)) AS INT64)",
    "clickhouse": "CAST(reinterpretAsUInt32(reverse(substring(SHA256({0}), 1, 4))) "
    "AS Nullable(Int64))",
    "databricks": f"CAST(conv({_FIRST_DIGITS}, 16, 10) AS BIGINT)",
    "duckdb": "CAST('0x' || substr(sha256({0}), 1, 8) AS BIGINT)",
    "postgres": "CAST(CAST('x' || substr(encode(sha256(convert_to({0}, 'UTF8')), 'hex'), 1, 8) "
    "AS BIT(32)) AS BIGINT)",
    "snowflake": f"TO_NUMBER({_FIRST_DIGITS}, 'XXXXXXXX')",
    "spark": f"CAST(conv({_FIRST_DIGITS}, 16, 10) AS BIGINT)",
    "trino": "from_base(substr(to_hex(sha256(to_utf8({0}))), 1, 8), 16)",
}
_FUNCTIONS = {"text_order": _TEXT_ORDER, "hash_number": _HASH_NUMBER}


def sqlglot() -> ModuleType:
    """Import sqlglot, or say which extra has it."""
    try:
        import sqlglot as module  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise needs_extra("sqlglot", "warehouse") from error
    return module


def needs_extra(module: str, extra: str = "spark") -> InputError:
    """Return the error for a package of an extra that is not installed."""
    return InputError(
        f"other engines need the package {module}, which is not installed", hint=install(extra)
    )


def macros() -> list[str]:
    """Return statements that let DuckDB know the functions of ours."""
    return [
        f"CREATE OR REPLACE TEMP MACRO {name}(x) AS {_text_in(name, 'duckdb').format('x')}"
        for name in _FUNCTIONS
    ]


def _text_in(name: str, dialect: str) -> str:
    texts = _FUNCTIONS[name]
    return texts.get(dialect) or texts[""]


def transpile(text: str, dialect: str, *, pretty: bool = False) -> str:
    """Return a DuckDB statement, whose names are quoted, in another dialect of sqlglot.

    For people it is written over several lines (`pretty`).

    Raises:
        InputError: A dialect that sqlglot does not know, or no statement.
    """
    try:
        tree = sqlglot().parse_one(text, read="duckdb")
        # Inner nodes first, so that the arguments of a function are translated before it is text.
        for node in [*tree.find_all(sqlglot().exp.Anonymous)][::-1]:
            if node.name.lower() in _FUNCTIONS:
                [argument] = (each.sql(dialect=dialect) for each in node.expressions)
                text = _text_in(node.name.lower(), dialect).format(argument)
                node.replace(sqlglot().parse_one(text, read=dialect))
        return str(tree.sql(dialect=dialect, comments=False, pretty=pretty))
    except ValueError as error:
        reason = reason_of(error)
        raise InputError(f"cannot translate a statement to {dialect}: {reason}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A table of a warehouse, and what is asked of it.

    Attributes:
        table: A table or a query, as the warehouse names it.
        apis: Columns that are APIs, sorted.
        dialect: As sqlglot knows it.
        user: Column that names the user; null: each row is a user.
        time: Column by which the latest row of a user counts; null: a user has one row.
        mask: Groups of fewer users are told as one sum; null: all groups are told.
        names: Column -> the API that it holds: see `store.names.say_names`.
        unit: What each user is: see `fpmonitor.unit`.
        key: Of the digest as it leaves; the empty text in what is not kept.

    Raises:
        InputError: No column, too small a mask, or an unknown dialect.
    """

    table: str
    apis: tuple[str, ...]
    dialect: str
    user: str | None = None
    time: str | None = None
    mask: int | None = None
    names: dict[str, str] = field(default_factory=dict)
    unit: Unit = "user"
    key: str = ""

    def __post_init__(self) -> None:
        if self.dialect not in DIALECTS:
            raise InputError(f"dialect: {excerpt(self.dialect)!r} is none of {', '.join(DIALECTS)}")
        if not self.apis:
            raise InputError("no column to ask for", hint="name some: --candidates A,B,C")
        if self.mask is not None and self.mask < 2:
            raise InputError(f"mask: must be at least 2, got {self.mask}")
        for column in filter(None, (self.user, self.time)):
            if column in self.apis:
                raise InputError(f"{excerpt(column)}: the user or the time is not an API")
        if self.time is not None and self.user is None:
            raise InputError("--time: whose?", hint="name the column of the user: --user COLUMN")


class UserPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Users by the hash of their name: those in places `first` to `last` of `of`, from 1.

    Raises:
        InputError: There is no such place.
    """

    first: int
    last: int
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last <= self.of <= MAX_PARTS:
            raise InputError(
                f"part {self.first}-{self.last}/{self.of}: no such part",
                hint=f"a part is 3/16 or 2-16/16, of at most {MAX_PARTS:,}",
            )

    @classmethod
    def from_text(cls, text: str) -> UserPart:
        """Read a part, as 3/16 or 2-16/16; errors as of the type."""
        found = _PART.fullmatch(text)
        if found is None:
            raise InputError(f"{text!r} is not a part of the users", hint="such as 3/16 or 2-16/16")
        first, last, of = found.groups()
        return cls(int(first), int(last or first), int(of))

    def __str__(self) -> str:
        places = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{places}/{self.of}"

    def is_apart_from(self, other: UserPart) -> bool:
        """Whether no user can be in both."""
        return self.of == other.of and (self.last < other.first or other.last < self.first)

    def holds(self, person: str) -> str:
        """Return the condition that a user is in it, in SQL for `transpile`."""
        place = f"hash_number(CAST({person} AS VARCHAR)) % {self.of}"
        return f"{place} >= {self.first - 1} AND {place} < {self.last}"


def all_sets(apis: Sequence[str]) -> list[tuple[str, ...]]:
    """Return all sets of some APIs but the empty one, the smallest first."""
    return [each for size in range(1, len(apis) + 1) for each in combinations(apis, size)]


def statement_of(question: Asked, sets: Iterable[Sequence[str]]) -> str:
    """Write the statement that counts the groups of some sets.

    Besides these it counts each API alone and all together, by which answers are told apart, and
    the users.
    """
    alone = [(api,) for api in question.apis]
    wanted = dict.fromkeys([*alone, *(tuple(sorted(set(apis))) for apis in sets), question.apis])
    numbered = list(wanted)
    columns = [f"c{i}" for i in range(len(question.apis))]
    column_of = dict(zip(question.apis, columns, strict=True))
    shown = [[column_of[api] for api in apis] for apis in numbered]
    is_grouped = question.dialect in _GROUPING_SETS and len(columns) <= _MOST_GROUPED
    places, counted = _by_grouping_sets(columns, shown) if is_grouped else _one_by_one(shown)
    text = statement(
        "asked/statement",
        all_rows=_visits(question, columns),
        persons=_persons(question, columns),
        groups=counted,
        **_told(question.mask),
        name_of_place=" ".join(
            f"WHEN {place} THEN {quote_text(json.dumps(apis, ensure_ascii=False))}"
            for place, apis in zip(places, numbered, strict=True)
        ),
        users="count(*)" if question.user is None else "count(DISTINCT person)",
        are_rows=str(int(question.user is None)),
    )
    return _written(text, question.table, question.dialect, _here(question), pretty=True) + ";\n"


def fingerprints(question: Asked, *, condition: str = "", grouped: bool) -> str:
    """Write the query of the values of users, `c0` and so on in the order of the APIs.

    It has a row for each user; or if `grouped` one for each fingerprint, with its `users`. The
    condition says which users, in terms of `person`, the text that names one.
    """
    columns = [f"c{i}" for i in range(len(question.apis))]
    names = ", ".join(columns)
    text = statement(
        "asked/fingerprints",
        all_rows=_visits(question, columns, condition, as_they_are=question.time is None),
        persons=_persons(question, columns, condition),
        columns=f"{names}, count(*)::BIGINT AS users" if grouped else names,
        grouping=f"GROUP BY {names}" if grouped else "",
    )
    return _written(text, question.table, question.dialect, _here(question, condition))


def named_rows(question: Asked, *, condition: str = "") -> str:
    """Write the query that counts rows (`records`), those of users (`named`), and users."""
    rows = _visits(question, [], condition)
    text = statement("asked/named", all_rows=rows, condition=condition or "TRUE")
    return _written(text, question.table, question.dialect, _here(question, condition))


def visits(table: str, dialect: str, *, condition: str) -> str:
    """Write the query of rows as they are, on a condition in terms of the table `v`."""
    here = _name_beside(condition)
    text = statement("asked/visits", columns="v.*", table=here, condition=condition)
    return _written(text, table, dialect, here)


def newest(table: str, dialect: str, time: str) -> str:
    """Write the query of the newest moment of a table."""
    moment, here = f"max(v.{quote_name(time)}) AS moment", _name_beside(time)
    text = statement("asked/visits", columns=moment, table=here, condition="TRUE")
    return _written(text, table, dialect, here)


def is_query(table: str) -> bool:
    """Whether a table is a query, and no name."""
    return _QUERY.match(table) is not None


def _here(question: Asked, condition: str = "") -> str:
    return _name_beside(question.user or "", question.time or "", condition, *question.apis)


def _name_beside(*texts: str) -> str:
    """Return a name for the table that stands in none of the texts of a statement."""
    name = "asked_table"
    while any(name in text for text in texts):
        name += "_"
    return name


def _written(text: str, table: str, dialect: str, here: str, *, pretty: bool = False) -> str:
    """Return a statement in a dialect, with the table, called `here`, as it is written.

    DuckDB here takes statements as they are, without sqlglot.
    """
    # The table is put in last: it is in the warehouse's own SQL, which sqlglot would rewrite.
    if pretty or dialect != "duckdb":
        text = transpile(text, dialect, pretty=pretty)
    return text.replace(here, _table(table, dialect, checked=pretty or dialect != "duckdb"))


def _table(table: str, dialect: str, *, checked: bool) -> str:
    """Return the table or query as it is written, if it is one, and of files the table."""
    # A console's query often ends in a semicolon, which no subquery may.
    text = table.strip().removesuffix(";").rstrip()
    if not is_query(text) and (files := _files(text, dialect)):
        return files
    if not checked:
        return f"(\n{text}\n)" if is_query(text) else text
    reason = "not one name of a table, or one query"
    try:
        read = text if is_query(text) else f"SELECT 1 FROM {text}"  # noqa: S608 -- only parsed
        trees = sqlglot().parse(read, read=dialect)
    except (ValueError, sqlglot().errors.SqlglotError) as error:
        trees, reason = [], excerpt(reason_of(error))
    nodes = sqlglot().exp
    if len(trees) == 1 and isinstance(trees[0], nodes.Query):
        if is_query(text):
            return f"(\n{text}\n)"  # the line may end in a comment
        # A name alone: with a WHERE, a join or an alias the statement would be another one.
        parts = {name for name, part in trees[0].args.items() if part and name != "expressions"}
        if parts == {"from_"} and not any(each.alias for each in trees[0].find_all(nodes.Table)):
            return f"{text}\n" if "--" in text else text
    raise InputError(
        f"--from: {excerpt(text)} is not a table or query of {dialect} ({reason})",
        hint="write the name as in FROM, with quotes where they are needed, or a query",
    )


def _files(text: str, dialect: str) -> str | None:
    """Return the table of files of Parquet, where a path or a pattern names some."""
    if dialect == "spark" and set(text) & set("/\\:") and "`" not in text:
        return f"parquet.`{text}`"
    if dialect != "duckdb" or not (set(text) & set("/\\*") or text.endswith(".parquet")):
        return None
    path = Path(text)
    if path.is_dir():
        # Before the closing quote, since what a folder's name holds is escaped.
        return f"read_parquet({quote_path(path)[:-1]}/**/*.parquet')"
    if path.is_file():
        return f"read_parquet({quote_path(path)})"
    # Otherwise a pattern, or a function that reads files.
    return None if set(text) & set("('") else f"read_parquet({quote_text(text)})"


def _visits(
    question: Asked, columns: Sequence[str], condition: str = "", *, as_they_are: bool = False
) -> str:
    """Return the statement of all rows, which the condition of another is about.

    Columns are told from aliases by the name of the table.

    Values that stay `as_they_are` may be no numbers: DuckDB then looks at each different one once.
    """

    def called(column: str) -> str:
        return f"v.{quote_name(column)}"

    form = "{0}" if as_they_are else _NO_NUMBER
    shown = [f"{'1' if question.user is None else _NOBODY.format(called(question.user))} AS person"]
    for api, column in zip(question.apis, columns, strict=False):
        shown.append(f"{form.format(called(api))} AS {column}")
    if question.time is not None:
        shown.append(f"{called(question.time)} AS moment")
    return statement("asked/rows", columns=", ".join(shown), table=_here(question, condition))


def _persons(question: Asked, columns: Sequence[str], condition: str = "") -> str:
    """Return the statement of one row per user."""
    names = ", ".join(columns)
    condition = " AND ".join(["NOT person IS NULL", *([f"({condition})"] if condition else [])])
    if question.time is None:
        return statement("asked/persons", columns=names, condition=condition)
    # A CASE is the same in all dialects, which differ in where nulls are sorted. Of equal times
    # all values decide, so that the row does not depend on how an engine reads the table.
    order = ["CASE WHEN moment IS NULL THEN 1 ELSE 0 END", "moment DESC"]
    for column in columns:
        order += [f"CASE WHEN {column} IS NULL THEN 1 ELSE 0 END", f"text_order({column}) DESC"]
    return statement("asked/latest", columns=names, order=", ".join(order), condition=condition)


def _one_by_one(sets: Sequence[Sequence[str]]) -> tuple[Sequence[int], str]:
    """Return the numbers of sets, and the statement that counts them one after the other."""
    texts = []
    for place, columns in enumerate(sets):
        absent = " OR ".join(f"{column} IS NULL" for column in columns)
        lacking = f"max(CASE WHEN {absent} THEN 1 ELSE 0 END)"
        more = {"lacking": lacking, "columns": ", ".join(columns)}
        texts.append(statement("asked/groups", place=str(place), **more))
    return range(len(sets)), " UNION ALL ".join(texts)


def _by_grouping_sets(
    columns: Sequence[str], sets: Sequence[Sequence[str]]
) -> tuple[Sequence[int], str]:
    """Return the numbers of sets, and the statement that counts them in one pass.

    A bit of a number stands for each column that is not in the set.
    """
    bit = {column: 1 << i for i, column in enumerate(columns)}
    places = [sum(bit[column] for column in columns if column not in these) for these in sets]
    absent = " OR ".join(f"(GROUPING({column}) = 0 AND {column} IS NULL)" for column in columns)
    text = statement(
        "asked/grouping_sets",
        place=" + ".join(f"{bit[column]} * GROUPING({column})" for column in columns),
        lacking=f"CASE WHEN {absent} THEN 1 ELSE 0 END",
        sets=", ".join(f"({', '.join(these)})" for these in sets),
    )
    return places, text


def _told(mask: int | None) -> dict[str, str]:
    """Return the parts of the statement that say what of the groups is told."""
    if mask is None:
        return {"more": "", "told": statement("asked/exact")}
    numbers = {"k": str(mask), "less": str(mask - 1), "enough": str(2 * mask - 1)}
    summed = statement("asked/summed", **numbers)
    return {"more": f", summed AS ({summed})", "told": statement("asked/masked", **numbers)}
