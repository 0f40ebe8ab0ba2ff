"""The account of a log adds up to the log, whatever else is in it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fpmonitor.account import KINDS, STORED
from fpmonitor.errors import InputError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fpmonitor.account import Account

K = 10
KINDS_OF_LOGS = ("csv", "jsonl", "parquet")
# As of libraries, of servers, of analytics, and of nobody.
NAMES = st.sampled_from(
    [
        *("userAgent", "navigator", "screen", "fonts", "media", "canvasHash", "isMobile"),
        *("getFonts", "hash", "data", "components", "audio", "count", "event_timestamp"),
        *("status", "method", "Screen.width", "screen.width", "timezone", "row_nr"),
        *("session_id", "experiment_branch", "x", "X", "Ärger", "two words", "a.b", "a/b"),
        *("", "'", '"', "%s", "v0", "s0", "_id", "1"),
    ]
)
TEXTS = ["a", "b", "Ä", "1", "2.5", "NA", "x y", "ERR_TIMEOUT", "192.0.2.1", "{", "[1]", '"', "'"]
VALUES: Mapping[Any, list[Any]] = {
    pl.String: TEXTS,
    pl.Int64: [0, 1, -7, 1920, 1_760_000_000],
    pl.Float64: [0.5, 1.0, -0.25, 1e300],
    pl.Boolean: [True, False],
}
OF_EACH: Mapping[str, Callable[[int], str]] = {
    "uuid": "{0:08x}-0000-4000-8000-{0:012x}".format,
    "e-mail": "user{}@example.org".format,
    "hash": "{:032x}".format,
    "number": str,
    "time": lambda i: f"2026-01-{i % 28 + 1:02}T10:00:{i % 60:02}Z",
}
CONSTANTS = ("same", 7, 0.5, True, {"deep": "same"}, None)


@st.composite
def members(draw: st.DrawFn, rows: int) -> pl.Series:
    """A column: values that users share, those that differ, or an object of two members."""
    form = draw(st.sampled_from(["shared", "shared", "shared", "of each", "object"]))
    if form == "of each":
        make = OF_EACH[draw(st.sampled_from(sorted(OF_EACH)))]
        return pl.Series([make(i * 7919 + 5) for i in range(rows)], dtype=pl.String)
    # Drawn cell by cell, hardly any table had a value that K users share.
    chance = Random(draw(st.integers(0, 2**32)))

    def cells() -> pl.Series:
        kind = draw(st.sampled_from(list(VALUES)))
        of_value = st.none() | st.sampled_from(VALUES[kind])
        among = draw(st.lists(of_value, min_size=1, max_size=4))
        return pl.Series(chance.choices(among, k=rows), dtype=kind)

    if form == "shared":
        return cells()
    return pl.DataFrame({"in": cells(), "too": cells()}).to_struct()


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.sampled_from([25, 12, 50, 9, 1]))
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    names = names if any(names) else ["x"]  # a column without a name is never taken
    return pl.DataFrame(
        {"user": [f"u{i}" for i in range(rows)]} | {name: draw(members(rows)) for name in names}
    )


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with a column for each member that is no object."""
    for name in [name for name, kind in frame.schema.items() if kind == pl.Struct]:
        inner = frame[name].struct.unnest()
        frame = frame.drop(name).hstack(inner.rename(lambda one, of=name: f"{of}.{one}"))
    return frame


@dataclass
class Reading:
    account: Account
    stored: set[tuple[int, str, str]]


def read(frame: pl.DataFrame, folder: Path, kind: str) -> Reading | str:
    """The account of a table and what is stored of it, or why it is refused."""
    log = folder / f"log.{kind}"
    if kind == "csv":
        flat(frame).write_csv(log)
    else:
        {"jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[kind](log)
    database = folder / "d.duckdb"
    database.unlink(missing_ok=True)
    with Monitor(database, create=True) as monitor:
        try:
            [batch] = monitor.ingest(log, column_map=ColumnMap(null="absent"))
        except InputError as error:
            return str(error)
        assert batch.account is not None
        [kept] = monitor.batches()
        assert kept.account == batch.account
        assert (batch.read, batch.collector) == (frame.height, "wide")
        assert batch.stored + batch.rejected == batch.read
        rows = monitor.observations()
    assert all(status == "value" for _, _, status, _, _ in rows)
    return Reading(batch.account, {(user, api, value or "") for user, api, _, _, value in rows})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    frame=tables(),
    kind=st.sampled_from(KINDS_OF_LOGS),
    name=NAMES.filter(bool),
    constant=st.sampled_from(CONSTANTS),
    place=st.integers(0, 8),
)
def test_the_account_adds_up_to_the_log_and_a_constant_changes_nothing_else(
    frame: pl.DataFrame, kind: str, name: str, constant: Any, place: int
) -> None:
    name = name if not {name} & {*frame.columns, *flat(frame).columns} else "always"
    wider = frame.with_columns(pl.Series(name, [constant] * frame.height))
    order = [one for one in wider.columns if one != name]
    order.insert(min(place, len(order)), name)
    with TemporaryDirectory() as folder:
        found = read(frame, Path(folder), kind)
        more = read(wider.select(order), Path(folder), kind)
    if isinstance(found, str):
        assert isinstance(more, str) or "no column is an API" in found, (found, more)
        return
    adds_up(found, flat(frame), kind)
    assert isinstance(more, Reading), more
    added = {name, f"{name}.deep"}
    assert [one for one in more.account.members if one.path not in added] == list(
        found.account.members
    )
    assert {row for row in more.stored if row[1] not in added} == found.stored


def adds_up(found: Reading, table: pl.DataFrame, kind: str) -> None:
    account = found.account
    assert account.records == table.height
    # JSON lines show a member only where some record has a value.
    shown = [name for name in table.columns if kind != "jsonl" or table[name].count()]
    paths = [member.path for member in account.members]
    assert Counter(paths) == Counter(dict.fromkeys({*shown, *paths}, 1))
    assert {*shown} <= {*paths} <= {*table.columns}
    for member in account.members:
        column = table[member.path]
        assert (member.records, member.values) == (column.count(), column.drop_nulls().n_unique())
        assert member.kind in KINDS
        assert (member.api is not None) == (member.kind in STORED)
        shared = {text_of(v): t for v, t in Counter(column.drop_nulls()).items() if t >= K}
        stored = Counter(value for _, api, value in found.stored if api == member.api)
        if member.api is None:
            assert member.commonest is None
            continue
        assert sum(stored.values()) == column.count()
        assert len(stored) == column.drop_nulls().n_unique()
        assert Counter(stored.values()) == Counter(Counter(column.drop_nulls()).values())
        if shared:
            assert member.commonest is not None, member
    assert {api for _, api, _ in found.stored} <= {m.api for m in account.members}


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
