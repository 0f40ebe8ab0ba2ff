"""Logs that Spark reads, as tables: Parquet, JSON lines, CSV, Delta, or a table it knows."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from fpmonitor.errors import InputError
from fpmonitor.logs import ColumnMap, excerpt

if TYPE_CHECKING:
    from collections.abc import Sequence

FileFormat = Literal["parquet", "jsonl", "csv", "delta", "table"]
_ENDINGS: dict[str, FileFormat] = {
    r"\.(jsonl|ndjson|json)(\.gz|\.zst)?$": "jsonl",
    r"\.csv(\.gz|\.zst)?$": "csv",
}
_TEXTS_BY_NAME = "map<string,string>"
_ZERO_FRACTION = r"^-?[0-9]+\.0$"
_SHORTER = (r"(:\s*-?[0-9]+)\.0(\s*[,}])", "$1$2")
_MINUS_ZERO = (r"(:\s*)-(0)\.0(\s*[,}])", "$1$2$3")
_TEXTS = ("user", "time", "source", "api", "status")
_ATTRIBUTES = "attributes"


def format_of(paths: Sequence[str]) -> FileFormat:
    """Tell by their names what paths hold: a plain word is a table, a folder is Parquet.

    Raises
    ------
    InputError
        They hold different formats.
    """
    if len(paths) == 1 and not set(paths[0]) & set("/\\:"):
        return "table"
    found = {_ending(path) for path in paths}
    if len(found) > 1:
        raise InputError(
            f"{excerpt(', '.join(paths))}: files of {' and '.join(sorted(found))} in one batch",
            hint="ingest them one after the other",
        )
    return found.pop()


def _ending(path: str) -> FileFormat:
    named = (kind for ending, kind in _ENDINGS.items() if re.search(ending, path.rstrip("/")))
    return next(named, "parquet")


def read_files(
    session: Any, paths: Sequence[str], form: FileFormat, column_map: ColumnMap | None = None
) -> Any:
    """Read paths as one frame of Spark.

    Parameters
    ----------
    session
        Of Spark Connect.
    paths
        Files or folders as the engine names them, or one table.
    form
        What they hold.
    column_map
        JSON: which members are no values, and what a null means.
    """
    match form:
        case "table":
            names = ".".join(f"`{part.replace('`', '``')}`" for part in paths[0].split("."))
            return session.table(names)
        case "parquet":
            return session.read.option("mergeSchema", "true").parquet(*paths)
        case "csv":
            reader = session.read.option("header", "true").option("multiLine", "true")
            return reader.option("escape", '"').csv(list(paths))
        case "delta":
            frames = [session.read.format("delta").load(path) for path in paths]
            return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
        case "jsonl":
            return _read_json(session, paths, column_map or ColumnMap())


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of the objects of one column.

    Attributes
    ----------
    column
        Of the objects.
    name
        Of the member.
    plain
        Whether no object has it as null or as a number like 5.0, and no other is called like it but
        for the case of letters: such a member is read at once, others are looked up one by one.
    """

    column: str
    name: str
    plain: bool


def _read_json(session: Any, paths: Sequence[str], column_map: ColumnMap) -> Any:
    """Read lines of JSON as columns of text; a line that is no object has nulls only.

    The engine's own reader would not tell a null from a member that is not there, and Sail's ends
    at the first broken line.
    """
    from pyspark.sql.connect import functions as f  # noqa: PLC0415 -- an extra

    lines = session.read.text(list(paths)).where(f.trim("value") != "")
    records = lines.select(f.col("value").alias("outer"))
    members = _members(records, "outer")
    if any(member.name == _ATTRIBUTES for member in members):
        members = [member for member in members if member.name != _ATTRIBUTES]
        inner = f.get_json_object("outer", f"$.{_ATTRIBUTES}").alias("inner")
        records = records.select("outer", inner)
        members += _members(records, "inner")
    twice = [
        name for name, times in Counter(member.name for member in members).items() if times > 1
    ]
    if twice:
        raise InputError(f"member {excerpt(twice[0])!r} stands both beside and in `{_ATTRIBUTES}`")
    columns = sorted({member.column for member in members})
    for column in columns:
        records = _parsed(records, column, [m for m in members if m.column == column])
    return records.select(*(_cell(member, column_map) for member in members))


def _members(records: Any, column: str) -> list[_Member]:
    """Survey the members of the objects of a column, sorted by name."""
    from pyspark.sql.connect import functions as f  # noqa: PLC0415 -- an extra

    found = records.select(f.explode(f.from_json(column, _TEXTS_BY_NAME)).alias("name", "text"))
    odd = f.col("text").isNull() | f.col("text").rlike(_ZERO_FRACTION)
    rows = found.groupBy("name").agg(f.max(odd.cast("int")).alias("odd")).toArrow().to_pylist()
    cases = Counter(row["name"].lower() for row in rows)
    return [
        _Member(column, row["name"], not row["odd"] and cases[row["name"].lower()] == 1)
        for row in sorted(rows, key=lambda row: str(row["name"]))
    ]


def _parsed(records: Any, column: str, members: Sequence[_Member]) -> Any:
    """Add the objects of a column as a struct of plain members and, for the others, as maps."""
    from pyspark.sql.connect import functions as f  # noqa: PLC0415 -- an extra
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415

    plain = [StructField(member.name, StringType()) for member in members if member.plain]
    forms = [f.from_json(column, StructType(plain)).alias("plain")] if plain else []
    if len(plain) < len(members):
        short = f.regexp_replace(column, *_MINUS_ZERO)
        short = f.regexp_replace(short, *_SHORTER)
        forms.append(f.from_json(column, _TEXTS_BY_NAME).alias("whole"))
        forms.append(f.from_json(short, _TEXTS_BY_NAME).alias("short"))
    # A projection would be merged with the next one, and the text parsed again for every member.
    return records.select("*", f.explode(f.array(f.struct(*forms))).alias(f"of_{column}"))


def _cell(member: _Member, column_map: ColumnMap) -> Any:
    """Text of a member: a whole number without its fraction of zero, a null as `null`."""
    from pyspark.sql.connect import functions as f  # noqa: PLC0415 -- an extra

    name, parsed = member.name, f.col(f"of_{member.column}")
    if member.plain:
        return parsed["plain"][name].alias(name)
    value = parsed["whole"][name]
    # Texts that only look like numbers, "5.0" in quotes, are the same in both maps.
    text = f.when(value.rlike(_ZERO_FRACTION), parsed["short"][name]).otherwise(value)
    if column_map.null == "absent" or name in {column_map.name_of(field) for field in _TEXTS}:
        return text.alias(name)
    is_null = f.map_contains_key(parsed["whole"], name) & value.isNull()
    return f.when(is_null, "null").otherwise(text).alias(name)
