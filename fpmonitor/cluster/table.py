"""A table of the operator, with one row per user, as text cells: the rules of a wide log."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from fpmonitor.cluster.engine import rows, union
from fpmonitor.cluster.local import LocalEngine
from fpmonitor.cluster.portable import transpile
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError, UnknownNameError, excerpt
from fpmonitor.logs.contract import MAX_APIS
from fpmonitor.sql import quote_name, statement
from fpmonitor.store.staging import LARGE_VALUE_BYTES, canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fpmonitor.cluster.engine import Engine

FIELDS = ("time", "source", "batch", "visit", "place")  # not APIs
_FLOATS = ("float", "double")
_PLAIN = re.compile(r"string|boolean|(tiny|small|big)?int|integer|date|timestamp(_ntz)?|decimal.*")
_NESTED = re.compile(r"(array|map)<.*>")
_RETOLD = {"number": pl.Int64, "text": pl.String, "stored": pl.String}
_IS_CELL = "CASE WHEN substr({0}, 1, 1) = chr(31) THEN 1 ELSE 0 END"
_MOST_FEW = 1 << 19  # values of an API that are few
_MOST_FEW_BYTES = 1 << 27
COLUMNS_A_STATEMENT = 40  # each may be a join, and engines plan joins slowly when there are many


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTable:
    """A relation of the session: the user, and one cell per API, null where it is absent.

    A cell holds a status, a separator and a text, as they go into the hash of a value.

    Attributes
    ----------
    relation
        Its name.
    apis
        Sorted; API number i is in the column `c<i>`.
    seen
        Rows with a value of each.
    few
        API number -> relation (text, cell) of its values, where these are few and the engine is of
        this computer: `c<i>` then is the text.
    """

    relation: str
    apis: tuple[str, ...]
    seen: tuple[int, ...]
    few: Mapping[int, str] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The columns of the APIs."""
        return [f"c{i}" for i in range(len(self.apis))]


def define_cells(
    engine: Engine,
    table: str,
    *,
    user: str = "user",
    apis: Iterable[str] | None = None,
    name: str = "cells",
    repeated: bool = False,
) -> CellTable:
    """Let `name` stand for the cells of a table.

    Parameters
    ----------
    engine
        Its session gets the views.
    table
        A table, a query or files of Parquet.
    user
        Column of the user. The columns `FIELDS` are not APIs.
    apis
        The APIs to look at; all other columns by default.
    repeated
        Whether a user may have several rows.

    Raises
    ------
    InputError
        No such table; no column of the user or of an API; a type that an API cannot have;
        rows without a user, or several rows of one.
    """
    kinds = engine.define_table(f"{name}_table", table)
    found = _columns_of_values(table, kinds, user)
    wanted = sorted(found if apis is None else [api for api in apis if api in found])
    if not wanted or len(wanted) > MAX_APIS:
        number = "no column" if not wanted else f"more than {MAX_APIS:,} columns"
        raise InputError(f"{excerpt(table)}: {number} of values")
    keep = ['"user"']
    texts = [f'{_text((user,), kinds[user,])} AS "user"']
    if repeated:
        keep += ["moment", "library"]
        texts += _of_visits(kinds)
    texts += [f"{_text(found[api], kinds[found[api]])} AS c{i}" for i, api in enumerate(wanted)]
    raw = f"{name}_raw"
    _select(engine, raw, texts, f"{name}_table")
    retold = {i: _to_retell(f"c{i}", kinds[found[api]]) for i, api in enumerate(wanted)}
    retold = {i: condition for i, condition in retold.items() if condition}
    seen, retold = _survey(engine, table, raw, len(wanted), retold, repeated=repeated)
    told = {i: (text, kinds[found[wanted[i]]]) for i, text in retold.items()}
    _define_retold(engine, name, dict.fromkeys(told, raw), told)
    columns = range(len(wanted))
    _define(
        engine,
        name,
        "cluster/cells",
        keep=", ".join(keep),
        cells=[f"{_cell(i, _joined_text(i) if i in retold else None)} AS c{i}" for i in columns],
        rows=raw,
        joins=_retold_joins(name, retold),
        columns=[f"raw.c{i}" for i in columns],
    )
    return CellTable(relation=name, apis=tuple(wanted), seen=seen)


def _of_visits(kinds: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    """Time and source of a row, null where the table does not say."""
    for column, alias in (("time", "moment"), ("source", "library")):
        text = _text((column,), kinds[column,]) if (column,) in kinds else "NULL::VARCHAR"
        yield f"{text} AS {alias}"


def _columns_of_values(
    table: str, kinds: Mapping[tuple[str, ...], str], user: str
) -> dict[str, tuple[str, ...]]:
    """Find the columns that hold values, by their names as those of APIs."""
    if (user,) not in kinds:
        names = excerpt(", ".join(".".join(path) for path in kinds))
        raise InputError(
            f"{excerpt(table)}: no column {user!r}; seen: {names}",
            hint="name it with --user COLUMN",
        )
    fields = {(field,) for field in (user, *FIELDS)}
    of_values = [path for path in kinds if path not in fields]
    found = {".".join(path): path for path in of_values}
    if len(found) < len(of_values):
        raise InputError(f"{excerpt(table)}: two columns have one name after structs are flattened")
    return found


def define_values(
    engine: Engine,
    table: str,
    apis: Sequence[str],
    *,
    user: str | None = None,
    time: str | None = None,
    condition: str = "TRUE",
    name: str = "cells",
) -> CellTable:
    """Let `name` stand for the cells of some APIs in every row, as `define_cells` makes them.

    Whose rows are whose is not looked at, so that memory does not grow with users.

    Parameters
    ----------
    apis
        Columns, sorted.
    user, time
        Columns that become `"user"`, a text, and `moment`, as it is.
    condition
        Which rows, in terms of `"user"`.
    """
    raw = f"{name}_raw"
    keep, kinds = _define_raw(engine, table, apis, user=user, time=time, name=name)
    few = _define_few(engine, name, raw, len(apis)) if isinstance(engine, LocalEngine) else {}
    retold = {
        i: text
        for i, kind in enumerate(kinds)
        # Numbers are told as DuckDB writes them.
        if not (isinstance(engine, LocalEngine) and kind in _FLOATS)
        and (text := _to_retell(f"c{i}", kind))
    }
    row = _survey_values(engine, raw, kinds, retold, few, has_user=user is not None)
    _check_named(table, row)
    retold = {i: text for i, text in retold.items() if row[f"n{i}"]}
    joined, stored = _stored_texts(engine, name, retold, kinds)
    # What no value needs is left out: DuckDB then hashes each entry of a dictionary once.
    large = [i in retold or (row.get(f"b{i}") or 0) > LARGE_VALUE_BYTES for i in range(len(apis))]
    cells = [
        _cell(i, stored.get(i), is_large=large[i], is_cell=bool(row.get(f"t{i}")))
        for i in range(len(apis))
    ]
    cells_of_few = {i: f"{values}_cells" for i, values in few.items()}
    for i, relation in cells_of_few.items():
        _select(engine, relation, [f"raw.c{i} AS text", f"{cells[i]} AS cell"], f"{few[i]} AS raw")
    shown = [f"raw.c{i} AS c{i}" if i in few else f"{cell} AS c{i}" for i, cell in enumerate(cells)]
    joins = f"{_retold_joins(name, joined)} WHERE {condition}"
    _select(engine, name, [*keep, *shown], f"{raw} AS raw", joins)
    return CellTable(
        relation=name,
        apis=tuple(apis),
        seen=tuple(int(row[f"s{i}"]) for i in range(len(apis))),
        few=cells_of_few,
    )


def _check_named(table: str, row: Mapping[str, Any]) -> None:
    if row["named"] < row["records"]:
        raise InputError(
            f"{excerpt(table)}: {row['records'] - row['named']:,} of {row['records']:,} rows have "
            "no user",
            hint="omit them in the query",
        )


def _define_raw(
    engine: Engine,
    table: str,
    apis: Sequence[str],
    *,
    user: str | None,
    time: str | None,
    name: str,
) -> tuple[list[str], list[str]]:
    """Let a view stand for the texts of columns; names of those that stay, types of the APIs."""
    kinds = engine.define_table(f"{name}_table", table)
    found = {".".join(path): path for path in kinds}
    for column in (*apis, *filter(None, (user, time))):
        if column not in found:
            raise UnknownNameError("column", column, found)
    texts = [f"{_text(found[api], kinds[found[api]])} AS c{i}" for i, api in enumerate(apis)]
    keep = []
    if user is not None:
        texts.append(f'{_text(found[user], kinds[found[user]])} AS "user"')
        keep.append('"user"')
    if time is not None:
        texts.append(f"{'.'.join(map(quote_name, found[time]))} AS moment")
        keep.append("moment")
    _select(engine, f"{name}_raw", texts, f"{name}_table")
    return keep, [kinds[found[api]] for api in apis]


def _stored_texts(
    engine: Engine, name: str, retold: Mapping[int, str], kinds: Sequence[str]
) -> tuple[Iterable[int], dict[int, str]]:
    """Columns whose texts are joined, and how the texts of `retold` are said as they are stored."""
    if isinstance(engine, LocalEngine):
        # Row by row, so that memory does not grow with the values.
        return (), {i: engine.canonical(f"raw.c{i}", text) for i, text in retold.items()}
    told = {i: (text, kinds[i]) for i, text in retold.items()}
    _define_retold(engine, name, dict.fromkeys(told, f"{name}_raw"), told)
    return retold, {i: _joined_text(i) for i in retold}


def _select(
    engine: Engine, name: str, columns: Sequence[str], relation: str, joins: str = ""
) -> None:
    _define(engine, name, "cluster/select", columns=columns, relation=relation, joins=joins)


def _survey_values(
    engine: Engine,
    raw: str,
    kinds: Sequence[str],
    retold: Mapping[int, str],
    few: Mapping[int, str],
    *,
    has_user: bool,
) -> dict[str, Any]:
    """Count records (`records`), those with a user (`named`), and of each API its values (`s`).

    Also whether one is retold (`n`), the bytes of the largest (`b`), whether any is a cell (`t`).
    """
    columns: dict[int, list[str]] = {i: [] for i in range(len(kinds))}
    for i, text in retold.items():
        columns[i].append(f"max(CASE WHEN {text} THEN 1 ELSE 0 END) AS n{i}")
    for i, kind in enumerate(kinds):
        if not _PLAIN.fullmatch(kind) or kind == "string":
            columns[i].append(f"max(count_bytes(c{i})) AS b{i}")
            columns[i].append(f"max({_IS_CELL.format(f'c{i}')}) AS t{i}")
    named = "CASE WHEN \"user\" <> '' THEN 1 END" if has_user else "*"
    of_rows = ["count(*) AS records", f"count({named}) AS named"]
    of_rows += [f"count(c{i}) AS s{i}" for i in columns]
    of_rows += [column for i in columns if i not in few for column in columns[i]]
    row = rows(engine, "cluster/count", counts=", ".join(of_rows), relation=raw).row(0, named=True)
    for i in few.keys() & {i for i in columns if columns[i]}:
        counts = ", ".join(columns[i])
        row |= rows(engine, "cluster/count", counts=counts, relation=few[i]).row(0, named=True)
    return row


def _define_few(engine: Engine, name: str, raw: str, apis: int) -> dict[int, str]:
    """Let DuckDB hold the different texts of the columns that have few; the table of each."""
    columns = [f"approx_count_distinct(c{i}), avg(count_bytes(c{i}))" for i in range(apis)]
    [found] = rows(engine, "cluster/count", counts=", ".join(columns), relation=raw).rows()
    few = {
        i: f"{name}_few{i}"
        for i, (values, size) in enumerate(zip(found[::2], found[1::2], strict=True))
        if values <= _MOST_FEW and values * (size or 0) <= _MOST_FEW_BYTES
    }
    for i, values in few.items():
        distinct = statement("cluster/distinct", column=f"c{i}", relation=raw)
        engine.define_rows(values, engine.frame(distinct))
    return few


def _retold_joins(name: str, retold: Iterable[int]) -> str:
    return " ".join(
        f"LEFT JOIN (SELECT text, stored FROM {name}_retold WHERE number = {i}) AS r{i} "  # noqa: S608 -- names of ours
        f"ON r{i}.text = raw.c{i}"
        for i in retold
    )


def _define(engine: Engine, name: str, query: str, **holes: str | Sequence[str]) -> None:
    filled = {
        hole: text if isinstance(text, str) else ", ".join(text) for hole, text in holes.items()
    }
    engine.define(name, transpile(statement(query, **filled), engine.dialect))


def _text(path: tuple[str, ...], kind: str) -> str:
    """Return the text of a column, as the collectors read it from Parquet; refuse other types."""
    name = ".".join(map(quote_name, path))
    if kind in _FLOATS:
        return (  # what is not a number is absent, as in ingest
            f"CASE WHEN isnan({name}) THEN NULL WHEN {name} = floor({name}) AND abs({name}) < 1e15 "
            f"THEN {name}::BIGINT::VARCHAR ELSE {name}::VARCHAR END"
        )
    if kind == "timestamp":  # of Spark: with a zone
        return f"({name}::VARCHAR || '+00')"
    if _PLAIN.fullmatch(kind):
        return f"{name}::VARCHAR"
    if _NESTED.fullmatch(kind) and "struct" not in kind and "binary" not in kind:
        return f"to_json({name})::VARCHAR"
    raise InputError(
        f"column {excerpt('.'.join(path))!r} is of type {excerpt(kind)}",
        hint="omit it from the query, or turn it into text there",
    )


def _to_retell(column: str, kind: str) -> str:
    """Condition on which an engine may write a value otherwise than stored; empty: never."""
    if kind in _FLOATS:  # other digits, other exponents, other infinities
        return f"(length({column}) > 16 OR regexp_matches({column}, '[EeNnIi]|^-?0[.]000'))"
    if kind == "string" or _NESTED.fullmatch(kind):
        return f"substr({column}, 1, 1) IN ('{{', '[')"
    return ""


def _survey(
    engine: Engine, table: str, raw: str, apis: int, retold: Mapping[int, str], *, repeated: bool
) -> tuple[tuple[int, ...], dict[int, str]]:
    """Check the users; rows with a value of each API, and the columns with values to retell."""
    columns = [f"count(c{i}) AS s{i}" for i in range(apis)]
    columns += [f"max(CASE WHEN {text} THEN 1 ELSE 0 END) AS n{i}" for i, text in retold.items()]
    found = rows(engine, "cluster/survey", columns=", ".join(columns), rows=raw)
    row = found.row(0, named=True)
    records, named, users = row["records"], row["named"], row["users"]
    if not records:
        raise InputError(f"{excerpt(table)}: no rows")
    if named < records:
        raise InputError(
            f"{excerpt(table)}: {records - named:,} of {records:,} rows have no user",
            hint="omit them in the query",
        )
    if users < records and not repeated:
        raise InputError(
            f"{excerpt(table)}: {records:,} rows of {users:,} users instead of one per user",
            hint="keep the latest row of each user: docs/spark.md has the query",
        )
    seen = tuple(int(row[f"s{i}"]) for i in range(apis))
    return seen, {i: condition for i, condition in retold.items() if row[f"n{i}"]}


def _define_retold(
    engine: Engine, name: str, sources: Mapping[int, str], retold: Mapping[int, tuple[str, str]]
) -> None:
    """Send the stored form of values that the engine writes differently, of a relation each."""
    if not retold:
        return
    texts = [
        statement(
            "cluster/texts", number=str(i), column=f"c{i}", rows=sources[i], condition=condition
        )
        for i, (condition, _) in retold.items()
    ]
    found = engine.frame(transpile(union(texts), engine.dialect))
    stored: list[tuple[int, str, str]] = []
    for (number,), part in found.group_by(["number"]):
        kind, values = retold[int(str(number))][1], part["text"].to_list()
        told = _float_texts(values, kind) if kind in _FLOATS else map(canonical_json, values)
        stored += [(int(str(number)), *pair) for pair in zip(values, told, strict=True)]
    engine.define_rows(f"{name}_retold", pl.DataFrame(stored, _RETOLD, orient="row"))


def _float_texts(texts: Sequence[str], kind: str) -> list[str]:
    """Return the texts that DuckDB has for numbers that another engine has written."""
    told = f"SELECT CAST(text AS {kind})::VARCHAR FROM (SELECT unnest($texts::VARCHAR[]) AS text)"  # noqa: S608 -- a type
    with in_memory() as connection:
        found = connection.execute(told, {"texts": list(texts)}).fetchall()
    return [row[0] for row in found]


def _joined_text(number: int) -> str:
    """Return the stored text of a value, where `_retold_joins` are joined."""
    return f"COALESCE(r{number}.stored, raw.c{number})"


def _cell(number: int, stored: str | None, *, is_large: bool = True, is_cell: bool = True) -> str:
    """Cell of a value: large values by digest and length; a text of `convert` is a cell already.

    `stored` is the text that is stored, where it is not that of the column.
    """
    column = f"raw.c{number}"
    text = whole = stored or column
    if is_large:
        text = (
            f"CASE WHEN count_bytes({whole}) > {LARGE_VALUE_BYTES} "
            f"THEN 'sha256:' || substr(sha256({whole}), 1, 32) || ':' || length({whole})::VARCHAR "
            f"ELSE {whole} END"
        )
    cell = f"'value' || chr(31) || ({text})"
    if is_cell:
        cell = (
            f"CASE WHEN substr({column}, 1, 1) = chr(31) THEN substr({column}, 2) ELSE {cell} END"
        )
    return cell
