"""A record that lists the visits of its user is read as that many visits."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fpmonitor import Monitor
from fpmonitor.cli import run

if TYPE_CHECKING:
    from pathlib import Path

USERS = 30


def visit(number: int, place: int) -> dict[str, Any]:
    return {
        "time": f"2026-03-{place + 1:02}T00:00:00Z",
        "userAgent": f"agent {number % 3}",
        "screen": {"width": 800 + place},
    }


def visits(number: int) -> list[dict[str, Any]]:
    return [visit(number, place) for place in range(1 + number % 3)]


def flat() -> list[dict[str, Any]]:
    return [{"user": f"u{i:02}", **one} for i in range(USERS) for one in visits(i)]


def keyed(folder: Path) -> Path:
    path = folder / "keyed.json"
    path.write_text(json.dumps({f"u{i:02}": visits(i) for i in range(USERS)}), encoding="utf-8")
    return path


def lines(folder: Path, name: str, *, as_text: bool = False) -> Path:
    path = folder / f"{name}.jsonl"
    told = json.dumps if as_text else (lambda listed: listed)
    records = [{"user": f"u{i:02}", name: told(visits(i))} for i in range(USERS)]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")
    return path


def comma_separated(folder: Path) -> Path:
    path = folder / "visits.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = ([f"u{i:02}", json.dumps(visits(i))] for i in range(USERS))
        csv.writer(file).writerows([["user", "visits"], *rows])
    return path


def columns(folder: Path) -> Path:
    path = folder / "visits.parquet"
    rows = [{"user": f"u{i:02}", "visits": visits(i)} for i in range(USERS)]
    pl.DataFrame(rows).write_parquet(path)
    return path


def wrapped(folder: Path) -> Path:
    path = folder / "wrapped.json"
    users = [{"user": f"u{i:02}", "sessions": visits(i)} for i in range(USERS)]
    path.write_text(json.dumps({"users": users}, indent=1), encoding="utf-8")
    return path


FILES = {
    "keyed by user": keyed,
    "visits": lambda folder: lines(folder, "visits"),
    "sessions": lambda folder: lines(folder, "sessions"),
    "text": lambda folder: lines(folder, "pageviews", as_text=True),
    "CSV": comma_separated,
    "Parquet": columns,
    "in a document": wrapped,
}


@pytest.mark.parametrize("kind", FILES)
def test_each_listed_visit_is_stored_as_a_visit_of_its_user(kind: str, tmp_path: Path) -> None:
    expected = tmp_path / "flat.jsonl"
    expected.write_text("".join(f"{json.dumps(one)}\n" for one in flat()), encoding="utf-8")
    stored = []
    for name, log in (("a", expected), ("b", FILES[kind](tmp_path))):
        with Monitor(tmp_path / name, create=True) as monitor:
            [batch] = monitor.ingest(str(log))
            assert (batch.stored, batch.users, batch.rejected) == (len(flat()), USERS, 0)
            stored.append(sorted(row[1:] for row in monitor.observations()))
    assert stored[0] == stored[1]


def test_what_stands_beside_the_visits_is_part_of_each(tmp_path: Path) -> None:
    records = [
        {"user": f"u{i}", "time": "2026-01-01T00:00:00Z", "gpu": f"g{i % 4}", "visits": visits(i)}
        for i in range(USERS)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")
    with Monitor(tmp_path / "x", create=True) as monitor:
        [batch] = monitor.ingest(str(log))
        times = {row[1] for row in monitor.observations()}
        gpus = [row for row in monitor.observations() if "gpu" in row]
    assert (batch.stored, batch.apis) == (len(flat()), 3)
    assert not any("2026-01-01" in str(time) for time in times)
    assert len(gpus) == len(flat())


VALUES = {
    "plugins": [{"name": "PDF Viewer", "filename": "internal-pdf-viewer"}],
    "voices": [{"name": "Anna", "lang": "de-DE"}],
    "devices": [{"kind": "audioinput", "label": "", "groupId": "x"}],
    "brands": [{"brand": "Chromium", "version": "140"}],
    "extensions": [{"id": "ext", "enabled": True}],
    "events": [{"type": "click", "target": "a"}],
}


@pytest.mark.parametrize("name", VALUES)
def test_a_list_that_an_api_returned_stays_one_value(name: str, tmp_path: Path) -> None:
    records = [
        {"user": f"u{i}", "userAgent": f"agent {i % 3}", name: VALUES[name] * (1 + i % 2)}
        for i in range(USERS)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")
    with Monitor(tmp_path / "x", create=True) as monitor:
        [batch] = monitor.ingest(str(log))
    assert (batch.stored, batch.users, batch.apis) == (USERS, USERS, 2)


@pytest.mark.parametrize("name", ["log", "screens", "what he saw"])
def test_a_list_of_visits_by_its_elements_alone_is_asked_about(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    element = {"at": "2026-03-01T00:00:00Z", "userAgent": "a", "colorDepth": 24}
    log = tmp_path / "log.jsonl"
    records = [{"user": f"u{i}", "language": "de", name: [element]} for i in range(USERS)]
    log.write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")
    ingest = ["ingest", str(log), "-q", "--db", str(tmp_path / "x")]
    assert run(ingest) == 2
    assert f"{name!r} looks like a list of visits" in capsys.readouterr().err
    assert run([*ingest, "--as", f"{name}="]) == 0
    assert run([*ingest[:-1], str(tmp_path / "y"), "--ignore", name]) == 0


def test_two_lists_of_visits_are_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    records = [{"user": f"u{i}", "visits": visits(i), "events": visits(i)} for i in range(USERS)]
    log.write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")
    ingest = ["ingest", str(log), "-q", "--db", str(tmp_path / "x")]
    assert run(ingest) == 2
    assert "events, visits each list visits" in capsys.readouterr().err
    assert run([*ingest, "--ignore", "events"]) == 0
