"""Logs as Parquet files for other engines: what `ingest` would store of them, a visit a row.

A converted log is a function of the log alone, so that any scheduler converts any number of them at
once: users are digests under one fixed key, and nothing is known of other logs.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.collectors.choosing import recognised
from fpmonitor.errors import InputError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.finding import log_files
from fpmonitor.safe_files import whole_file
from fpmonitor.store.database import Database
from fpmonitor.store.ingest import ingest_log, names_said
from fpmonitor.store.names import said_names, say_names
from fpmonitor.unit import check_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fpmonitor.store.batches import BatchReport

# Columns of a converted log beside those of the APIs.
FIELDS = ("user", "time", "source", "batch", "visit")
SEPARATOR, NO_TEXT = "\x1f", "\x1e"


def convert(
    paths: Sequence[str],
    target: Path,
    *,
    collector: str | None = None,
    column_map: ColumnMap | None = None,
    rows_are_users: bool = False,
    progress: Callable[[str, str], None] = lambda _source, _stage: None,
) -> list[BatchReport]:
    """Write the visits of logs into one Parquet file.

    Columns: `user` (`visitor:...` or `row:...` for one that is no more than that), `time` (UTC),
    `source`, `batch` (the name of the log), `visit` (the place in the order of the logs), and one
    of text an API, null where it is absent; one that the column map says to be an API of the
    vocabulary bears the name of that. A text is a value, unless it begins with the separator
    U+001F: then a status (`value`, `undefined`, `error`), the separator and a text follow, where
    U+001E stands for none.

    Args:
        paths: Files, folders, glob patterns, or `-` for standard input.
        target: The file; it appears whole or not at all.
        rows_are_users: Whether rows of a log that names no users may become users of the file,
            which names them.
    """
    column_map = column_map or ColumnMap()
    with tempfile.TemporaryDirectory(prefix="fpmonitor-") as scratch, log_files(paths) as logs:
        known = [recognised(log, column_map, collector) for log in logs]
        with Database(Path(scratch) / "converted.duckdb", create=True) as database:
            database.run("convert/fix_key")
            reports = [
                ingest_log(database, *one, progress=partial(progress, one.log.label))
                for one in known
            ]
            check_limits([report.unit for report in reports], rows_are_users=rows_are_users)
            say_names(database, names_said(known))
            frame = _visits(database, said_names(database))
    with whole_file(target) as scratch_file:
        frame.write_parquet(scratch_file)
    return reports


def _visits(database: Database, said: Mapping[str, str]) -> pl.DataFrame:
    """Rows of visits; each API is one column of text, under the name that the user gave it."""
    visits = database.rows("convert/visits")
    names = ["visit", "time", "user", "source", "batch"]
    frame = pl.DataFrame(visits, names, orient="row", infer_schema_length=None).cast(
        {"visit": pl.Int64, "time": pl.Datetime("us"), "source": pl.String}
    )
    row_of = np.full(int(frame["visit"].max() or 0) + 1, -1, dtype=np.int64)  # type: ignore[arg-type]
    row_of[frame["visit"].to_numpy()] = np.arange(len(frame))
    columns = []
    taken = set(FIELDS)
    for api_id, api in sorted(database.rows("snapshot/apis"), key=lambda row: row[1]):
        name = said.get(api) or api
        if name in taken:
            raise InputError(
                f"{api!r} would be called {name!r}, and so is another column of converted logs",
                hint="leave it out with `ignore` in the column map",
            )
        taken.add(name)
        rows = database.rows("report/value_texts", api=api)
        # A place for each number up to the last: 0 is absent, and some may have been forgotten.
        cells = dict.fromkeys(range(max((code for code, _, _ in rows), default=0) + 1))
        cells |= {code: _cell(status, text) for code, status, text in rows}
        arrays = database.arrays("convert/observations", api=api_id)
        codes = np.zeros(len(frame), dtype=np.int64)
        codes[row_of[np.asarray(arrays["visit_id"])]] = np.asarray(arrays["value_id"])
        dictionary = pl.Series(name, list(cells.values()), dtype=pl.String)
        columns.append(dictionary.gather(codes))
    numbered = frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("visit"))
    return numbered.select(*FIELDS).with_columns(columns)


def _cell(status: str, text: str | None) -> str:
    if status == "value" and text is not None and not text.startswith(SEPARATOR):
        return text
    return SEPARATOR.join(("", status, NO_TEXT if text is None else text))
