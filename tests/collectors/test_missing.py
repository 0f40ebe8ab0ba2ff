"""One meaning of missing: the same table gives the same decision, whatever wrote it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USERS = 600


def table() -> pl.DataFrame:
    """Texts, numbers and truth values that some users lack, and a column that all of them lack."""
    numbers = range(USERS)
    return pl.DataFrame(
        {
            "user": [f"u{i}" for i in numbers],
            "platform": [["Win32", "MacIntel", "Linux"][i % 3] for i in numbers],
            "oscpu": [None if i % 4 else f"cpu {i % 7}" for i in numbers],
            "cores": [None if i % 5 == 0 else i % 40 for i in numbers],
            "ratio": [None if i % 6 == 0 else 1 + (i % 8) / 2 for i in numbers],
            "touch": [None if i % 7 == 0 else i % 2 == 0 for i in numbers],
            "empty": pl.Series([None] * USERS, dtype=pl.String),
        }
    )


def with_duckdb(form: str) -> Callable[[pl.DataFrame, Path], object]:
    def copy(frame: pl.DataFrame, path: Path) -> None:
        duckdb.from_arrow(frame).to_view("rows")
        duckdb.execute(f"COPY rows TO '{path}' ({form})")

    return copy


def as_pandas_lines(frame: pl.DataFrame, path: Path) -> None:
    """`frame.to_json(orient="records", lines=True)`: whole numbers beside NaN are fractions."""
    whole = {"cores": lambda value: None if value is None else float(value)}
    records = (
        {name: whole.get(name, lambda value: value)(cell) for name, cell in row.items()}
        for row in frame.iter_rows(named=True)
    )
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in records))


def as_pandas_csv(frame: pl.DataFrame, path: Path) -> None:
    """`frame.to_csv(index=False)`: NaN is an empty field, truth values are `True`."""
    texts = frame.with_columns(
        pl.col("cores").cast(pl.Float64),
        pl.col("touch").replace_strict({True: "True", False: "False"}, return_dtype=pl.String),
    )
    texts.write_csv(path)


def as_pandas_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Numbers with NaN, as numpy has them."""
    nan = frame.with_columns(pl.col("cores", "ratio").cast(pl.Float64).fill_null(float("nan")))
    nan.write_parquet(path)


WRITERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "polars.csv": lambda frame, path: frame.write_csv(path),
    "polars.jsonl": lambda frame, path: frame.write_ndjson(path),
    "polars.json": lambda frame, path: frame.write_json(path),
    "polars.parquet": lambda frame, path: frame.write_parquet(path),
    "quoted.csv": lambda frame, path: frame.write_csv(path, quote_style="non_numeric"),
    "duckdb.csv": with_duckdb("FORMAT csv, HEADER"),
    "duckdb.jsonl": with_duckdb("FORMAT json"),
    "duckdb.json": with_duckdb("FORMAT json, ARRAY true"),
    "duckdb.parquet": with_duckdb("FORMAT parquet"),
    "pandas.jsonl": as_pandas_lines,
    "pandas.csv": as_pandas_csv,
    "pandas.parquet": as_pandas_parquet,
}


def decided(folder: Path, *logs: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """Store logs by the command, decide on those who have all values, and return the decision."""
    database, decision = str(folder / "a.duckdb"), folder / "decision.json"
    assert run(["ingest", *logs, "--db", database, "-q", *options]) == 0
    question = ["--k", "5", "--setting", "sample", "--budget", "50%", "--missing", "exposed"]
    candidates = "platform,oscpu,cores,ratio,touch"
    asked = ["decide", "--db", database, *question, "--candidates", candidates]
    assert run([*asked, "-o", str(decision), "-q"]) == 0
    found = json.loads(decision.read_text())
    return {
        name: found[name] for name in ("allow", "block", "undecided", "coverage", "recommended")
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("expected")
    table().write_parquet(folder / "a.parquet")
    found = decided(folder, str(folder / "a.parquet"))
    assert found["coverage"]["oscpu"] == 0.25
    return found


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_table_gives_the_same_decision(
    tmp_path: Path, expected: dict[str, Any], name: str
) -> None:
    log = tmp_path / name
    WRITERS[name](table(), log)
    assert decided(tmp_path, str(log)) == expected


def test_nested_and_wrapped_nulls_are_absent_too(tmp_path: Path, expected: dict[str, Any]) -> None:
    log = tmp_path / "a.jsonl"
    lines = []
    for place, row in enumerate(table().iter_rows(named=True)):
        user = row.pop("user")
        outer = None if place == 3 else {"inner": None}
        lines.append(json.dumps({"user": user, "attributes": row, "more": outer}))
    log.write_text("\n".join(lines))
    assert decided(tmp_path, str(log), options=("--ignore", "more")) == expected


def spelled(frame: pl.DataFrame, text: str) -> pl.DataFrame:
    """The table as texts, in which a text stands for what is missing."""
    return frame.with_columns(pl.exclude("user").cast(pl.String).fill_null(text))


@pytest.mark.parametrize("name", [name for name in WRITERS if not name.startswith("pandas")])
@pytest.mark.parametrize("text", ["NA", "-", "NaN", "(not set)", "-1"])
def test_a_text_that_stands_for_missing_is_absent_in_every_format(
    tmp_path: Path, expected: dict[str, Any], name: str, text: str
) -> None:
    log = tmp_path / name
    WRITERS[name](spelled(table(), text), log)
    assert decided(tmp_path, str(log), options=("--null", text)) == expected
    column_map = tmp_path / "map.toml"
    column_map.write_text(f"null = [{text!r}, 'N/A']\n")
    (tmp_path / "a.duckdb").unlink()
    assert decided(tmp_path, str(log), options=("--columns", str(column_map))) == expected


def test_a_number_that_stands_for_missing_is_absent_in_json(
    tmp_path: Path, expected: dict[str, Any]
) -> None:
    log = tmp_path / "a.jsonl"
    table().with_columns(pl.col("cores", "ratio").fill_null(-1)).write_ndjson(log)
    assert decided(tmp_path, str(log), options=("--null", "-1")) == expected


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_in_a_long_log_nothing_is_known_of_an_api_whose_value_stands_for_missing(
    tmp_path: Path, expected: dict[str, Any], ending: str
) -> None:
    log = tmp_path / f"a.{ending}"
    long = spelled(table(), "N/A").unpivot(index="user", variable_name="api")
    write = {"csv": long.write_csv, "jsonl": long.write_ndjson, "parquet": long.write_parquet}
    write[ending](log)
    assert decided(tmp_path, str(log), options=("--null", "N/A")) == expected


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_user_or_time_that_stands_for_missing_is_missing(tmp_path: Path, ending: str) -> None:
    frame = pl.DataFrame(
        {"user": ["a", "NA", "b"], "time": ["-", "2026-01-01", "2026-01-02"], "x": [1, 2, 3]}
    )
    log = tmp_path / f"a.{ending}"
    write = {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}
    write[ending](log)
    told = tmp_path / "told.json"
    options = ["--null", "NA", "--null", "-", "--format", "json", "-o", str(told), "-q"]
    assert run(["ingest", str(log), "--db", str(tmp_path / "a.duckdb"), *options]) == 0
    [batch] = json.loads(told.read_text())["batches"]
    assert (batch["read"], batch["stored"], batch["rejected"]) == (3, 2, 1)


def test_results_of_libraries_take_a_named_text_for_absent(tmp_path: Path) -> None:
    log, told = tmp_path / "a.jsonl", tmp_path / "apis.json"
    component = {"duration": 1}
    records = [
        {
            "user": f"u{i}",
            "components": {
                "platform": {"value": "Linux", **component},
                "timezone": {"value": "N/A" if i % 2 else "Europe/Paris", **component},
            },
        }
        for i in range(40)
    ]
    log.write_text("\n".join(map(json.dumps, records)))
    database = str(tmp_path / "a.duckdb")
    assert run(["ingest", str(log), "--db", database, "--null", "N/A", "-q"]) == 0
    assert (
        run(["db", "apis", "--db", database, "--k", "5", "--format", "json", "-o", str(told)]) == 0
    )
    coverage = {line["users"] for line in json.loads(told.read_text())}
    assert coverage == {20, 40}


def test_a_null_is_a_value_where_the_column_map_says_so(tmp_path: Path) -> None:
    log, column_map, told = tmp_path / "a.jsonl", tmp_path / "map.toml", tmp_path / "apis.json"
    table().select("user", "oscpu").write_ndjson(log)
    column_map.write_text('null = "value"\n')
    database = str(tmp_path / "a.duckdb")
    assert run(["ingest", str(log), "--db", database, "--columns", str(column_map), "-q"]) == 0
    assert (
        run(["db", "apis", "--db", database, "--k", "5", "--format", "json", "-o", str(told)]) == 0
    )
    [line] = json.loads(told.read_text())
    assert line["users"] == USERS


@pytest.mark.parametrize("content", ["null = [1]", "null = {}", "null = 'NA'"])
def test_what_no_null_can_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    log, column_map = tmp_path / "a.csv", tmp_path / "map.toml"
    log.write_text("user,x\na,1\n")
    column_map.write_text(content)
    database = str(tmp_path / "a.duckdb")
    assert run(["ingest", str(log), "--db", database, "--columns", str(column_map)]) == 2
    assert "$.null" in capsys.readouterr().err  # the place of what is wrong


@pytest.mark.parametrize("others", [(0.5, 2.0), (0.5, 1e300), (1e16, -1e16)])
def test_what_is_no_number_in_parquet_is_no_value_whatever_the_others_are(
    others: tuple[float, ...], tmp_path: Path
) -> None:
    """A file notes bounds of the numbers alone, by which DuckDB takes `isnan` for false."""
    values = [*others, float("nan")] * 4
    frame = pl.DataFrame({"user": [f"u{i}" for i in range(len(values))], "ratio": values})
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monitor.ingest(frame)
        stored = [text for *_, text in monitor.observations()]
    assert len(stored) == 8
    assert "nan" not in stored
