"""A file that is corrected leaves no trace of what was wrong, and any file can be taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fpmonitor.cli import run

DAYS, USERS = (1, 2, 3), 120


def day(folder: Path, number: int, name: str, *, wrong: bool = False, form: str = "wide") -> str:
    """A log of one day: an API of rare values, which was once wrong for a day, and a common one."""
    rows: list[dict[str, Any]] = []
    for user in range(USERS):
        rare = "broken" if wrong else f"v{user // 4}"
        head = {"user": f"u{user}", "time": f"2026-03-0{number}T12:00:00Z"}
        values = {"A.rare": rare, "A.common": user % 2}
        if form == "wide":
            rows.append(head | values)
        else:
            rows += [{**head, "api": api, "value": value} for api, value in values.items()]
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[Any, str]:
    capsys.readouterr()
    assert run([*arguments]) == code, arguments
    printed, notes = capsys.readouterr()
    return printed, notes


def told(capsys: pytest.CaptureFixture[str], db: Path) -> list[Any]:
    """What is said of all APIs, how often they change with it, and of the exposure."""
    found = json.loads(
        said(capsys, "db", "apis", "--k", "3", "--format", "json", "--db", str(db))[0]
    )
    question = (
        "--apis",
        "A.rare",
        "--k",
        "10",
        "-n",
        "1000",
        "--since",
        "2000-01-01",
        "--format",
        "json",
    )
    return [*found, *json.loads(said(capsys, "exposure", *question, "--db", str(db))[0])]


@pytest.mark.parametrize("form", ["wide", "long"])
def test_an_api_that_was_wrong_for_a_day_and_corrected_is_as_exposing_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    right, mended = tmp_path / "right.duckdb", tmp_path / "mended.duckdb"
    days = [day(tmp_path, number, f"{number}.jsonl", form=form) for number in DAYS]
    wrong = day(tmp_path, 2, "wrong.jsonl", wrong=True, form=form)
    assert run(["ingest", *days, "--db", str(right)]) == 0
    assert run(["ingest", days[0], wrong, days[2], "--db", str(mended)]) == 0
    assert told(capsys, mended) != told(capsys, right)
    _, notes = said(capsys, "ingest", days[1], "--db", str(mended))
    assert f"2.jsonl corrects {USERS} visits of" in notes
    assert "wrong.jsonl" in notes
    assert told(capsys, mended) == told(capsys, right)
    assert run(["db", "verify", "--db", str(mended)]) == 0

    # The old version again, in other bytes, changes nothing; where it comes last, it wins until it
    # is taken back.
    again = day(tmp_path, 2, "again.jsonl", wrong=True, form=form)
    Path(again).write_bytes(Path(again).read_bytes() + b"\n")
    assert "corrects" not in said(capsys, "ingest", again, "--db", str(mended))[1]
    assert told(capsys, mended) == told(capsys, right)
    before = told(capsys, right)
    assert f"corrects {USERS} visits of" in said(capsys, "ingest", wrong, "--db", str(right))[1]
    assert told(capsys, right) != before
    forget = ("db", "forget", "--db", str(right), "--batch")
    assert f"{USERS} visits deleted" in said(capsys, *forget, wrong)[1]
    assert "0 visits deleted" in said(capsys, *forget, days[1])[1]
    assert run(["ingest", days[1], "--db", str(right)]) == 0
    assert told(capsys, right) == before
    assert run(["db", "verify", "--db", str(right)]) == 0
    assert "unknown log" in said(capsys, *forget, "2.jsonlx", code=2)[1]


def test_a_log_that_repeats_a_part_corrects_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What one visit tells twice, as a randomised value, stays beside the first."""
    rows = [{"user": "u", "time": "2026-03-01T12:00:00Z", "api": "A.a", "value": v} for v in "xy"]
    logs, more = [], [*rows, {**rows[0], "value": "z"}]
    for name, kept in (("both", rows), ("first", rows[:1]), ("more", more)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        logs.append(str(path))
    _, notes = said(capsys, "ingest", *logs, "--db", str(tmp_path / "d.duckdb"))
    assert "corrects" not in notes
