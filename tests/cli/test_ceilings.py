"""Beside what is undecided stands whether anybody could decide it, and from how many users."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.cli import run
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = """
[[component]]
name = "width"
apis = ["Screen.width"]
levels = [{raw = true}, {step = 2}, {step = 5}]
"""
NOBODY = "no test could from 400 users"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Widths whose exposure is near 5 % where k is a tenth of the users."""
    rng = np.random.default_rng(2)
    shares = np.array([0.055, 0.2, 0.3, 0.445])
    widths = rng.choice(shares.size, 400, p=shares)
    folder = tmp_path_factory.mktemp("ceilings")
    return stored(folder, ({"Screen.width": str(3 * width)} for width in widths))


@pytest.mark.parametrize("levels", [False, True])
def test_what_is_undecided_says_who_could_decide_it(
    levels: bool, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "levels.toml").write_text(LEVELS)
    made, report = tmp_path / "made.json", tmp_path / "report.html"
    options = ["--levels", str(tmp_path / "levels.toml")] * levels
    asked = ["decide", "--budget", "5%", "-k", "10%", "-n", "1M", "--db", database, *options]
    assert run([*asked, "-q", "-o", str(made)]) in {0, 3}
    content = json.loads(made.read_text())
    assert len(content["users_possible"]) == len(content["undecided"]) > 0
    assert all(number is None or number > 400 for number in content["users_possible"])
    capsys.readouterr()
    assert run([*asked, "-q", "--format", "table"]) in {0, 3}
    assert NOBODY in " ".join(capsys.readouterr().out.split())
    assert run(["audit", "certificate", str(made), "--db", database]) == 0
    if not levels:
        told = ["export", "--report", str(made), "--db", database, "-o", str(report)]
        assert run(told) == 0
        assert NOBODY in report.read_text()
