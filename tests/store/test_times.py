"""What `ingest` reads as a time, in every format of file, and what it refuses."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pytest

from fpmonitor.cli import run

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = datetime(2026, 3, 1, 10, tzinfo=UTC)
TIMES = {
    "1772359200": 0,
    "1772359200.25": 0.25,
    "1.7723592e9": 0,
    "1772359200250": 0.25,
    "1772359200250.5": 0.2505,
    "1772359200250001": 0.250001,
    "1.772359200250001e15": 0.250001,
    "1772359200250001999": 0.250001,
    "2026-03-01T10:00:00Z": 0,
    "2026-03-01T11:00:00.25+01:00": 0.25,
    "2026-03-01 04:30:00-0530": 0,
    "2026-03-01 11:00:00 +0100": 0,
    "2026-03-01 10:00:00,250": 0.25,
    "2026-03-01 10:00:00.250 UTC": 0.25,
    "2026-03-01T11:00:00+01:00[Europe/Berlin]": 0,
    "2026-03-01T10:00:00.250001999Z": 0.250001,
    "2026-03-01T10:00": 0,
    "2026/03/01 10:00:00": 0,
    "20260301T100000Z": 0,
    "20260301100000": 0,
    "01/Mar/2026:11:00:00 +0100": 0,
    "[01/Mar/2026:10:00:00 +0000]": 0,
    "01/Mar/2026:10:00:00.250": 0.25,
    "Sun Mar 01 2026 11:00:00 GMT+0100 (Central European Standard Time)": 0,
    "01.03.2026 10:00:00": 0,
    "1.3.2026, 10:00:00": 0,
    "01.03.2026 10:00": 0,
    "Sun, 01 Mar 2026 10:00:00 GMT": 0,
    "Sun Mar  1 10:00:00 2026": 0,
}
NO_TIMES = {
    "0": "is a number",
    "1234.5": "is a number",  # milliseconds since a page was opened
    "45000.5": "is a number",  # days, as a spreadsheet counts them
    "99999999999999999999": "is a number",
    "3/1/2026, 10:00:00 AM": "is neither",  # in March or in January
    "yesterday": "is neither",
    "2026-13-01": "is neither",
}


def write(path: Path, rows: list[dict[str, str]]) -> str:
    """The same rows in the format of the path's ending; numbers as texts."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        pl.DataFrame(rows).write_parquet(path)
    return str(path)


def times(db: Path) -> list[datetime]:
    with duckdb.connect(str(db), read_only=True) as connection:
        found = connection.execute('SELECT "time" FROM visit ORDER BY visit_id').fetchall()
    return [time.replace(tzinfo=UTC) for (time,) in found]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_times_of_many_writers_are_the_same_moment(tmp_path: Path, ending: str) -> None:
    rows = [{"user": f"u{i}", "when": text, "a": "x"} for i, text in enumerate(TIMES)]
    log = write(tmp_path / f"a.{ending}", rows)
    assert run(["ingest", log, "--time", "when", "--db", str(tmp_path / "db"), "-q"]) == 0
    found = times(tmp_path / "db")
    after = [(time - WHOLE).total_seconds() for time in found]
    assert dict(zip(TIMES, after, strict=True)) == TIMES


@pytest.mark.parametrize(
    "form", ["%d.%m.%Y %H:%M", "%d.%m.%Y, %H:%M:%S", "%d.%m.%Y", "%d/%b/%Y:%H:%M:%S +0000"]
)
def test_a_column_of_times_is_named_with_the_option_that_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    days = [datetime(2026, 3, day, 10, tzinfo=UTC) for day in range(1, 29)]
    rows = [{"user": f"u{d.day}", "Datum": d.strftime(form), "a": f"{d.day % 2}"} for d in days]
    log, db = write(tmp_path / "a.csv", rows), str(tmp_path / "db")
    assert run(["ingest", log, "--db", db]) == 2
    assert "--time Datum" in capsys.readouterr().err
    assert run(["ingest", log, "--time", "Datum", "--db", db]) == 0


def test_numbers_of_json_are_times_too(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    numbers = [1772359200, 1772359200.25, 1772359200250, 1772359200250001, 1772359200250001999]
    records = [{"user": str(i), "event_timestamp": n, "a": 1} for i, n in enumerate(numbers)]
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    asked = ["ingest", str(log), "--time", "event_timestamp", "--db", str(tmp_path / "db"), "-q"]
    assert run(asked) == 0
    assert {time.replace(microsecond=0) for time in times(tmp_path / "db")} == {WHOLE}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("text", NO_TIMES)
def test_what_is_no_time_is_rejected_with_its_reason(
    tmp_path: Path, ending: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"user": f"u{i}", "when": time, "a": "x"} for i, time in enumerate([*TIMES, text])]
    log = write(tmp_path / f"a.{ending}", rows)
    assert run(["ingest", log, "--time", "when", "--db", str(tmp_path / "db")]) == 0
    assert json.loads(capsys.readouterr().out)["batches"][0]["rejected"] == 1
    assert run(["db", "rejects", "--db", str(tmp_path / "db")]) == 0
    assert len(times(tmp_path / "db")) == len(TIMES)
    assert NO_TIMES[text] in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("form", ["wide", "long"])
@pytest.mark.parametrize("day", ["2026-03-01", "2026/03/01", "2026-03-01 00:00:00"])
def test_day_and_time_of_day_in_two_columns_are_one_time(
    tmp_path: Path, ending: str, form: str, day: str
) -> None:
    told = {"api": "A.a", "value": "x"} if form == "long" else {"a": "x"}
    rows = [{"user": f"u{i}", "day": day, "at": f"10:00:{i:02}.5", **told} for i in range(20)]
    log = write(tmp_path / f"a.{ending}", rows)
    db = ["--db", str(tmp_path / "db"), "-q"]
    assert run(["ingest", log, "--time", "day,at", *db]) == 0
    assert sorted((time - WHOLE).total_seconds() for time in times(tmp_path / "db")) == [
        i + 0.5 for i in range(20)
    ]


def test_results_of_libraries_tell_day_and_time_of_day_too(tmp_path: Path) -> None:
    components = {"platform": {"value": "Linux"}, "timezone": {"value": "UTC"}}
    log = tmp_path / "a.jsonl"
    told = {"user": "u", "day": "2026-03-01", "at": "10:00:00", "version": "5.0.0"}
    log.write_text(json.dumps({**told, "components": components}) + "\n")
    db = ["--db", str(tmp_path / "db"), "-q"]
    assert run(["ingest", str(log), "--time", "day, at", *db]) == 0
    assert times(tmp_path / "db") == [WHOLE]
