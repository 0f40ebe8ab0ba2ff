"""Logs that an engine reads, as visits that it stores: a row a visit, a column an API."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from fpmonitor.cluster.spark import text_cell, timestamp_sql
from fpmonitor.errors import InputError
from fpmonitor.logs import excerpt
from fpmonitor.store.ingest import LARGE_VALUE_BYTES, canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.cluster.portable import SqlEngine
    from fpmonitor.logs import ColumnMap

SEPARATOR = "\x1f"  # between the status and the text of a cell, as in the words of values
NO_TEXT = "\x1e"
_FIELDS = ("user", "time", "source", "api", "status", "value")
_EXPORTED = ("observation", "visit", "user", "api", "value", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records of a log, which the view `checked` of the session holds.

    Attributes
    ----------
    collector
        `long` or `wide`.
    apis
        Wide: what the columns `v0`, `v1`, ... of the view hold. Long: all APIs of the log.
    read, rejected
        Records, and those that are no use.
    digest
        Of the multiset of the other records, in whatever files.
    nested
        Columns of the view with JSON objects or arrays among their values.
    """

    collector: str
    apis: tuple[str, ...]
    read: int
    rejected: int
    digest: str
    nested: tuple[str, ...]


def visit_column(api: str) -> str:
    """Column of an API in the stored visits, the same in all batches: names are only data."""
    return "v" + hashlib.sha256(api.encode()).hexdigest()[:20]


def is_export(engine: SqlEngine, paths: Sequence[str]) -> bool:
    """Whether a path is a folder that `store.transfer.export_data` has written."""
    return len(paths) == 1 and bool(engine.schema_of([_exported(paths[0], "observation")]))


def _exported(folder: str, table: str) -> str:
    return f"{folder.rstrip('/')}/{table}.parquet"


def define_export(engine: SqlEngine, folder: str) -> dict[str, str]:
    """Let `batch_files` stand for the observations of exported data; its columns and types.

    Raises
    ------
    InputError
        Digests were kept there instead of values.
    """
    engine.define_files("exported_meta", [_exported(folder, "meta")])
    if "value_key" in engine.rows("remote/whole", relation="exported_meta")["name"]:
        raise InputError(
            f"{excerpt(folder)} holds digests instead of values, and those are not read here",
            hint="import it into a database with `fpmonitor import-data`",
        )
    kinds: dict[str, str] = {}
    for table in _EXPORTED:
        found = engine.define_files(f"exported_{table}", [_exported(folder, table)])
        kinds |= {"time": found["time"]} if table == "visit" else {}
    engine.define_query("batch_files", "remote/exported")
    return dict.fromkeys(_FIELDS, "string") | kinds


def read_batch(
    engine: SqlEngine, kinds: Mapping[str, str], column_map: ColumnMap, label: str
) -> Batch:
    """Survey the records of the view `batch_files`.

    Parameters
    ----------
    engine
        Its session holds the view.
    kinds
        Columns of the view and their types.
    column_map
        Which hold what.
    label
        What messages call the log.

    Raises
    ------
    InputError
        No column for the user, no API, or a nested column.
    """
    names = {field: column_map.name_of(field) for field in _FIELDS}
    if names["user"] not in kinds:
        raise InputError(
            f"{label}: no column {names['user']!r}; seen: {excerpt(', '.join(kinds))}",
            hint="name it with --user NAME or --columns MAP.toml",
        )
    if names["api"] in kinds:
        _define_checked(engine, kinds, names, _FIELDS, ())
        apis = tuple(sorted(engine.rows("remote/apis")["api"].to_list()))
        return _surveyed(engine, "long", apis, ["api", "status", "value"], ["value"])
    known = {names[field] for field in _FIELDS[:3]} | column_map.ignore
    apis = tuple(name for name in kinds if name not in known)
    if not apis:
        raise InputError(f"{label}: no column is an API")
    _define_checked(engine, kinds, names, _FIELDS[:3], apis)
    columns = [f"v{number}" for number in range(len(apis))]
    return _surveyed(engine, "wide", apis, columns, columns)


def _define_checked(
    engine: SqlEngine,
    kinds: Mapping[str, str],
    names: Mapping[str, str],
    fields: Sequence[str],
    apis: Sequence[str],
) -> None:
    """Define the records with what is wrong with each."""
    moment, no_time = ("NULL::BIGINT", "FALSE")
    if names["time"] in kinds:
        moment, no_time = timestamp_sql(names["time"], kinds[names["time"]])
    cells = [f"{moment} AS moment", f"({no_time}) AS no_time"]
    for field in fields:
        if field != "time":
            name = names[field]
            cell = text_cell(name, kinds[name]) if name in kinds else "NULL::VARCHAR"
            cells.append(f'{cell} AS "{field}"')
    if apis:
        cells += ["'*' AS api", "'value' AS status"]
        cells += [f"{text_cell(api, kinds[api])} AS v{i}" for i, api in enumerate(apis)]
    records = f"SELECT {', '.join(cells)} FROM batch_files"  # noqa: S608 -- names are quoted
    engine.define_query("checked", "remote/checked", records=records)


def _surveyed(
    engine: SqlEngine,
    collector: str,
    apis: tuple[str, ...],
    hashed: Sequence[str],
    values: Sequence[str],
) -> Batch:
    texts = ['"user"', "moment::VARCHAR", "source", *hashed]
    survey = engine.rows(
        "remote/batch_survey",
        texts=", ".join(f"COALESCE({text}, chr(30))" for text in texts),
        nested=", ".join(
            f"max(CASE WHEN substr({column}, 1, 1) IN ('{{', '[') THEN 1 ELSE 0 END) AS nested{i}"
            for i, column in enumerate(values)
        ),
    )
    sound = survey.filter(pl.col("problem").is_null())
    sums = sound.select("records", "h1", "h2", "h3", "h4").cast(pl.String).rows()
    return Batch(
        collector=collector,
        apis=apis,
        read=int(survey["records"].sum()),
        rejected=int(survey["records"].sum()) - int(sound["records"].sum()),
        digest=hashlib.sha256(repr([collector, apis, sums]).encode()).hexdigest()[:32],
        nested=tuple(
            column for i, column in enumerate(values) if sound[f"nested{i}"].to_list() == [1]
        ),
    )


def visits_statement(engine: SqlEngine, batch: Batch, *, key: str, number: int) -> str:
    """Statement of the visits of a batch, in the dialect of the engine.

    Parameters
    ----------
    engine
        Its session holds the view `checked`.
    batch
        What `read_batch` said of it.
    key
        Key of the user digests.
    number
        Place of the batch in the order of ingest.
    """
    _define_canonical(engine, batch.nested)
    values = {"key": key, "batch": number}
    columns = [visit_column(api) for api in batch.apis]
    if batch.collector == "wide":
        cells = ", ".join(
            f"'value' || chr(31) || {_stored_text(f'v{i}', batch.nested)} AS {column}"
            for i, column in enumerate(columns)
        )
        joins = " ".join(_canonical_join("checked", column) for column in batch.nested)
        return engine.text_of("remote/wide_visits", values, cells=cells, joins=joins)
    engine.define_query("cells", "remote/long_cells")
    engine.define_rows(
        "api_number", pl.DataFrame({"number": range(len(batch.apis)), "api": batch.apis})
    )
    cells = ", ".join(
        f"max(CASE WHEN number = {i} THEN cell END) AS {column}" for i, column in enumerate(columns)
    )
    joins = " ".join(_canonical_join("cells", column) for column in batch.nested)
    text = _stored_text("value", batch.nested)
    return engine.text_of("remote/long_visits", values, cells=cells, joins=joins, text=text)


def _define_canonical(engine: SqlEngine, columns: Sequence[str]) -> None:
    texts: list[str] = []
    if columns:
        rows = engine.rows("remote/nested_values", columns=", ".join(columns))
        texts = sorted(rows["text"].to_list())
    engine.define_rows(
        "nested_value",
        pl.DataFrame(
            {"text": texts, "canonical": [canonical_json(text) for text in texts]},
            schema={"text": pl.String, "canonical": pl.String},
        ),
    )


def _canonical_join(relation: str, column: str) -> str:
    return f"LEFT JOIN nested_value AS of_{column} ON of_{column}.text = {relation}.{column}"


def _stored_text(column: str, nested: Sequence[str]) -> str:
    """Text of a value as it is stored: nested ones canonical, large ones by digest and length."""
    whole = f"COALESCE(of_{column}.canonical, {column})" if column in nested else column
    return (
        f"CASE WHEN count_bytes({whole}) > {LARGE_VALUE_BYTES} "
        f"THEN 'sha256:' || substr(sha256({whole}), 1, 32) || ':' || length({whole})::VARCHAR "
        f"ELSE {whole} END"
    )
