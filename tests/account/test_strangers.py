"""Logs of strangers: nothing is dropped or promoted in silence, by `--plan` as by `ingest`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fpmonitor.cli import run
from fpmonitor.monitor import Monitor

if TYPE_CHECKING:
    from pathlib import Path

READ = ("Screen.width", "Navigator.userAgent", "http:accept-language")


def long_rows(names: tuple[str, str, str]) -> list[dict[str, str]]:
    user, api, value = names
    return [
        {user: f"u{number}", api: name, value: f"{name[:3]}{number % 5}"}
        for number in range(60)
        for name in READ
    ]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize(
    "names",
    [("client", "signal", "reading"), ("visitor_key", "feature", "result"), ("who", "q", "answer")],
)
def test_a_long_log_with_names_of_its_own_is_no_wide_one(
    names: tuple[str, str, str], form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its column of APIs was once an API, and of each user the last row alone counted."""
    user, api, value = names
    log, rows = tmp_path / f"log.{form}", long_rows(names)
    lines = [json.dumps(row) for row in rows]
    if form == "csv":
        lines = [",".join(names), *(",".join(row.values()) for row in rows)]
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    db = tmp_path / "d.duckdb"
    arguments = ["ingest", str(log), "--db", str(db), "-q"]
    assert run([*arguments, "--user", user]) == 2
    said = capsys.readouterr().err
    assert f"'{api}' looks like names of APIs" in said
    assert f'api = "{api}"' in said
    column_map = tmp_path / "map.toml"
    column_map.write_text(
        f'[columns]\nuser = "{user}"\napi = "{api}"\nvalue = "{value}"\n', encoding="utf-8"
    )
    assert run([*arguments, "--columns", str(column_map)]) == 0
    with Monitor(db) as monitor:
        assert {*monitor.population().apis} == {*READ}
        assert monitor.population().users == 60


def test_values_that_are_names_of_something_else_stay_an_api(tmp_path: Path) -> None:
    rows = [{"user": f"u{n}", "fonts": ["Arial", "Screen", "Times"][n % 3]} for n in range(60)]
    log, db = tmp_path / "log.jsonl", tmp_path / "d.duckdb"
    log.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert run(["ingest", str(log), "--db", str(db), "-q"]) == 0
    with Monitor(db) as monitor:
        assert monitor.population().apis == ("fonts",)


def test_a_plan_tells_of_records_that_would_be_rejected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A plan of a log without any record that can be stored is refused as the log itself."""
    good = [json.dumps({"user": f"u{n}", "Screen.width": n % 4}) for n in range(40)]
    log, target = tmp_path / "some.jsonl", str(tmp_path / "some.toml")
    log.write_text("\n".join([*good, '{"user": "u1", "Screen', '{"Screen.width": 1}']), "utf-8")
    assert run(["ingest", "--plan", str(log), target]) == 0
    said = capsys.readouterr().err
    assert "2 of 42 records were rejected, most often because" in said
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"user": "", "Screen.width": 1}\n' * 3, encoding="utf-8")
    assert run(["ingest", "--plan", str(bad), str(tmp_path / "bad.toml")]) == 2
    assert "every record (3) was rejected" in capsys.readouterr().err
    assert not (tmp_path / "bad.toml").exists()
