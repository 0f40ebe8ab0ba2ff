"""A frame is stored as the Parquet file of its rows would be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fpmonitor import ColumnMap, InputError, Monitor

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pl.DataFrame(
    {
        "user": ["a", "b", "c", "a"],
        "time": ["2026-03-01", "2026-03-02", None, "2026-03-03"],
        "Screen.width": [1920, 1280, None, 1920],
        "ratio": [0.25, 1.5, None, 0.25],
        "agent": ["x, y", None, "", "ü"],
    }
)


def as_pandas(*, filtered: bool = False) -> Any:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pandas hands frames on by pyarrow")
    frame = pandas.DataFrame(ROWS.to_dict(as_series=False))
    # The index of what a filter leaves is no range any more.
    return (
        pandas.concat([frame.iloc[[2]], frame]).iloc[1:].iloc[[0, 1, 2, 3]] if filtered else frame
    )


def as_arrow() -> Any:
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed").table(
        ROWS.to_dict(as_series=False)
    )


FRAMES = {
    "polars": lambda: ROWS,
    "chunks": lambda: pl.concat([ROWS.head(1), ROWS.tail(3)], rechunk=False),
    "lazy": lambda: ROWS.lazy().filter(pl.col("user") != "nobody"),
    "categories": lambda: ROWS.with_columns(pl.col("agent").cast(pl.Categorical)),
    "pandas": as_pandas,
    "pandas, filtered": lambda: as_pandas(filtered=True),
    "pyarrow": as_arrow,
}


def told(monitor: Monitor) -> Any:
    return monitor.database._connection.execute(
        "SELECT api.name, value.status, value.text, visit_id, visit.time FROM observation "
        "JOIN api USING (api_id) JOIN value USING (api_id, value_id) JOIN visit USING (visit_id) "
        "ORDER BY ALL"
    ).fetchall()


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_stored_as_its_parquet_file_and_csv(kind: str, tmp_path: Path) -> None:
    frame = FRAMES[kind]()
    ROWS.write_parquet(tmp_path / "rows.parquet")
    ROWS.write_csv(tmp_path / "rows.csv", quote_style="non_numeric")
    answers = []
    for number, logs in enumerate([frame, tmp_path / "rows.parquet", [tmp_path / "rows.csv"]]):
        with Monitor(tmp_path / f"{number}.duckdb", create=True) as monitor:
            [batch] = monitor.ingest(logs)
            assert (batch.read, batch.stored, batch.users, batch.apis) == (4, 4, 3, 3)
            answers.append((told(monitor), monitor.exposure([["Screen.width"]], k=2)[0].to_json()))
    assert answers[0] == answers[1]
    assert answers[2][0] == answers[0][0]


@pytest.mark.parametrize("kind", FRAMES)
def test_the_same_frame_again_adds_nothing(kind: str, tmp_path: Path) -> None:
    with Monitor(tmp_path / "db.duckdb", create=True) as monitor:
        [first] = monitor.ingest(FRAMES[kind](), name="march")
        [again] = monitor.ingest(FRAMES[kind](), name="april")
        assert (first.source, first.stored) == ("march", 4)
        assert (again.stored, again.duplicates) == (0, 4)
        assert [batch.source for batch in monitor.batches()] == ["march"]


def test_users_of_a_frame_are_named_by_the_column_map(tmp_path: Path) -> None:
    renamed = ROWS.rename({"user": "visitor", "agent": "no_api"})
    with Monitor(tmp_path / "db.duckdb", create=True) as monitor:
        with pytest.raises(InputError, match="visitor") as caught:
            monitor.ingest(renamed)
        assert "ColumnMap({'user'" in str(caught.value.hint)
        columns = ColumnMap({"user": "visitor"}, ignore=frozenset({"no_api"}))
        [batch] = monitor.ingest(renamed, column_map=columns)
        assert (batch.users, batch.apis) == (3, 2)


@pytest.mark.parametrize(
    "wrong",
    [5, None, {"user": ["a"]}, pl.DataFrame({"user": [object()]}, strict=False), ROWS[:, :0]],
)
def test_what_is_no_frame_is_refused_with_a_hint(wrong: Any, tmp_path: Path) -> None:
    with Monitor(tmp_path / "db.duckdb", create=True) as monitor:
        with pytest.raises(InputError):
            monitor.ingest(wrong)
        assert monitor.batches() == []


def test_any_name_of_a_column_is_stored(tmp_path: Path) -> None:
    """Also those that DuckDB and ingest itself give to columns of their own."""
    names = ["log_row", "rowid", "File_Row_Number", "filename", "v0", "c0", "record"]
    frame = pl.DataFrame({"user": ["a", "b", ""], **{name: ["x", "y", "z"] for name in names}})
    stored = []
    for kind in ("parquet", "csv"):
        log = tmp_path / f"log.{kind}"
        getattr(frame, f"write_{kind}")(log)
        with Monitor(tmp_path / f"{kind}.duckdb", create=True) as monitor:
            [batch] = monitor.ingest(log)
            stored.append([(api.api, api.users, api.values) for api in monitor.apis(k=2)])
        assert (batch.read, batch.rejected, batch.apis) == (3, 1, len(names))
    assert stored[0] == stored[1]
