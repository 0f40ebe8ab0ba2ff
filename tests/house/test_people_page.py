"""The worked decision of docs/people.md: refused for its cohorts, repaired, and followed."""

from __future__ import annotations

import csv
import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from fpmonitor.cli import run
from tests.asked import answer_of

PAGE = Path(__file__).parents[2] / "docs" / "people.md"
AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0.0.0",
    "Mozilla/5.0 (Windows NT 10.0; rv:143.0) Gecko Firefox/143.0",
    "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko Firefox/143.0",
)
USERS = 10_000


def written(path: Path) -> Path:
    """Write users of whom those of Linux have many fonts; most come back after 90 days."""
    rng, start = np.random.default_rng(1), datetime(2026, 1, 5, 12, tzinfo=UTC)
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "time", "Navigator.userAgent", "fonts", "depth", "clock"])
        for user in range(USERS):
            kind = rng.choice(len(AGENTS), p=(0.9, 0.04, 0.06))
            fonts = rng.integers(150) if kind == 2 else rng.integers(4)
            day = start + timedelta(days=int(rng.integers(20)))
            rest = [AGENTS[kind], f"f{fonts}", 8 + user % 3, user % 2]
            lines.writerow([f"u{user}", day.isoformat(), *rest])
            if rng.random() < 0.8:
                later = day + timedelta(days=90)
                if rng.random() < 0.3:
                    rest[1] = f"f{rng.integers(150 if kind == 2 else 4)}"
                lines.writerow([f"u{user}", later.isoformat(), *rest])
        # the log goes on until all have had the time to come back
        lines.writerow(["u0", (start + timedelta(days=130)).isoformat(), *rest])
    return path


def commands() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("fpmonitor")]


@pytest.mark.long
def test_commands_and_figures_of_the_page_are_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["ingest", str(written(tmp_path / "log.csv")), "-q"]) == 0
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    first, repaired, followed, linked = commands()
    for words, allowed in (
        (first, ["clock, depth, fonts"]),
        (repaired, ["clock, depth"]),
        (linked, ["clock, fonts", "clock, depth"]),
    ):
        assert run([*words, "-q", "-o", "d.json"]) == 0
        found = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
        assert sorted(map(", ".join, found["allow"])) == sorted(allowed)
        assert f"may read {', or '.join(allowed)}" in text
    [report] = answer_of(capsys, *followed)
    [line] = report["followed"]
    told = re.search(r"between ([\d.]+) and ([\d.]+) %, and any method at most ([\d.]+) %", text)
    limits = (line["same_lower"], line["same_upper"], line["any_upper"])
    assert told is not None
    assert [float(each) for each in told.groups()] == [round(100 * each, 2) for each in limits]
