"""What the commands say of a set: `exposure`, `decide`, `gate`, `check` and the preview agree."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.cli import run
from tests.estimate.test_one_family import random_law
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

APIS = ("Screen.width", "Screen.height", "Navigator.language")
OPTIONS: tuple[tuple[str, ...], ...] = (
    *((), ("--bias", "1.1"), ("--fake-share", "1%"), ("--missing", "exposed")),
    *(("--missing", "drop"), ("--realised",), ("--given", "Navigator.platform")),
)


def answer(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = run([*command, "--format", "json"])
    told = capsys.readouterr()
    assert "Warning" not in told.err
    return code, json.loads(told.out) if told.out else told.err


def random_log(
    rng: np.random.Generator, folder: Path, users: int, threshold: float, budget: float
) -> str:
    """Users of whom some lack a value, of columns that are alike, all different, or in between."""
    columns = []
    for kind in rng.choice(4, len(APIS), p=[0.7, 0.1, 0.1, 0.1]):
        law = random_law(rng, threshold, budget)
        drawn = (
            rng.choice(law.size, users, p=law),
            np.zeros(users, int),
            np.maximum(np.arange(users), 1),
            rng.choice(2, users),
        )
        columns.append(drawn[kind])
    lacking = rng.choice([0, 0.2]) > rng.random((len(APIS), users))
    # never a column without values, which no log holds
    lacking[:, :12] = False
    return stored(
        folder,
        (
            {api: f"v{columns[j][i]}" for j, api in enumerate(APIS) if not lacking[j, i]}
            | {"Navigator.platform": "ab"[i % 2]}
            for i in range(users)
        ),
    )


@pytest.mark.parametrize(
    ("seed", "questions"), [(5, 2), pytest.param(6, 20, marks=pytest.mark.long)]
)
def test_no_two_commands_contradict_each_other(
    seed: int, questions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of random logs and questions: small, large and equal n, k from 2 to n, also above m."""
    rng, settled = np.random.default_rng(seed), 0
    for number in range(questions):
        users = int(10 ** rng.uniform(1.5, 3.5))
        n = int(users * 10 ** rng.choice([-0.5, 0, rng.uniform(0, 2), rng.uniform(2, 6)]))
        k = int(rng.choice([2, n, max(n // 2, 2), max(n // 10, 2), min(n, 10), min(n, 50)]))
        budget = float(rng.choice([0.01, 0.05, 0.2, 0.9]))
        folder = tmp_path / str(number)
        folder.mkdir()
        db = random_log(rng, folder, users, k / n, budget)
        asked = ["-k", str(k), "-n", str(n), "--delta", str(rng.choice([0.05, 0.3])), "--db", db]
        option = OPTIONS[rng.integers(len(OPTIONS))]
        fixed = ["--fixed-question"] * bool(rng.integers(2))
        code, reports = answer(capsys, "exposure", *map(",".join, subsets(APIS)), *asked, *option)
        assert code == 0, reports
        exposed = {tuple(sorted(report["apis"])): report for report in reports}
        made = folder / "decision.json"
        wanted = ["--candidates", ",".join(APIS), "--budget", str(budget), "-q", "-o", str(made)]
        assert run(["decide", *wanted, *asked, *option, *fixed]) in {0, 3}
        if not made.exists():  # too few users to tell cohorts apart, or these expose too many
            assert option[:1] == ("--given",), option
            continue
        said = (users, n, k, budget, option, fixed)
        settled += agree(capsys, (str(made), db), exposed, budget, said)
    assert settled


def subsets(apis: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [each for size in range(1, len(apis) + 1) for each in combinations(apis, size)]


def agree(
    capsys: pytest.CaptureFixture[str],
    files: tuple[str, str],
    exposed: dict[tuple[str, ...], dict[str, Any]],
    budget: float,
    said: object,
) -> int:
    """Compare all that a decision and a database tell of each set; return how many are decided."""
    (made, db), settled = files, 0
    for apis, report in exposed.items():
        gated = [
            answer(capsys, "gate", made, "--want", ",".join(apis), *users)[1]
            for users in ([], ["--db", db])
        ]
        assert [told["verdict"] for told in gated] == [gated[0]["verdict"]] * 2, (apis, said, gated)
        verdict = gated[0]["verdict"]
        limits = report["lower"], report["upper"]
        assert not (verdict == "allow" and limits[0] > budget), (apis, limits, said)
        assert not (verdict == "block" and limits[1] <= budget), (apis, limits, said)
        settled += verdict in {"allow", "block"}
    code, checked = answer(capsys, "check", made, "--all", "--db", db)
    assert code == 0, (checked, said)
    sets = checked if isinstance(checked, list) else checked["sets"]
    assert all(each["verdict"] == "allow" and each["lower"] <= budget for each in sets), said
    code, states = answer(capsys, "export", "--preview", made, "--to", "ublock", "--db", db)
    assert code == 0, (states, said)
    for state in states:
        left = exposed.get(tuple(sorted(state["left"])))
        if left is not None:
            alike = [(each["lower"], each["upper"]) for each in (state, left)]
            assert alike[0] == alike[1], (state, left, said)
    return settled
