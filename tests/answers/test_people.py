"""Who is behind an average: cohorts that the log tells, by name, with limits, and their traps."""

from __future__ import annotations

import csv
import re
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.cli import run
from fpmonitor.estimate.cohorts import cohort_limits
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.spectrum import CountSpectrum
from tests.asked import answer_of

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = {
    ("chromium", "Windows"): "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0.0.0",
    ("firefox", "Windows"): "Mozilla/5.0 (Windows NT 10.0; rv:143.0) Gecko Firefox/143.0",
    ("firefox", "Linux"): "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko Firefox/143.0",
    (
        "safari",
        "iOS",
    ): "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) Version/18 Safari/604",
}
SHARES = dict(zip(AGENTS, (0.8, 0.08, 0.05, 0.07), strict=True))
USERS, VALUES = 6_000, 400


def written(folder: Path, *, header: str = "Navigator.userAgent", seed: int = 1) -> Path:
    """Write users of whom those of Linux alone have many values of the colour."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(len(AGENTS), USERS, p=list(SHARES.values()))
    rare = rng.integers(VALUES, size=USERS)
    agents = list(AGENTS.values())
    log = folder / f"log-{seed}.csv"
    with log.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", header, "colour", "depth"])
        for user, (kind, colour) in enumerate(zip(kinds, rare, strict=True)):
            linux = list(AGENTS)[kind][1] == "Linux"
            lines.writerow([f"u{user}", agents[kind], colour if linux else kind, 8 + kind % 2])
    return log


def stored(log: Path, *options: str) -> str:
    database = str(log.with_suffix(".duckdb"))
    assert run(["ingest", str(log), "--db", database, "-q", *options]) == 0
    return database


def test_family_and_system_are_cohorts_as_a_column_of_the_same_would_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = stored(written(tmp_path))
    [by_kind] = answer_of(
        capsys, "exposure", "colour", "--given", "family,system", "--db", database
    )
    [by_agent] = answer_of(
        capsys, "exposure", "colour", "--given", "Navigator.userAgent", "--db", database
    )
    assert by_kind["given"] == ["browser family", "operating system"]
    for told, same in zip(by_kind["cohorts"], by_agent["cohorts"], strict=True):
        kind = (told["given"]["browser family"], told["given"]["operating system"])
        assert same["given"]["Navigator.userAgent"] == AGENTS[kind]
        assert {**told, "given": None} == {**same, "given": None}
    worst = by_kind["worst"]["given"]
    assert worst == {"browser family": "firefox", "operating system": "Linux"}
    # all of a cohort are exposed whose values have a tenth of k users each
    p = SHARES["firefox", "Linux"] / VALUES
    truth = float(exposure_probability(p, k=10, population=USERS))
    assert by_kind["worst"]["lower"] <= truth <= by_kind["worst"]["upper"]
    assert by_kind["worst"]["lower"] > 0.3
    # groups are of the whole population: the cohorts' exposures add up to that of all
    added = sum(each["share"] * each["empirical"] for each in by_kind["cohorts"])
    assert added == pytest.approx(by_kind["empirical"])


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("family", ["browser family"]),
        ("operating system", ["operating system"]),
        ("system,depth", ["depth", "operating system"]),
    ],
)
def test_each_kind_stands_alone_and_beside_columns(
    given: str, names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = stored(written(tmp_path))
    [found] = answer_of(capsys, "exposure", "colour", "--given", given, "--db", database)
    assert sorted(found["given"]) == names
    assert sorted(found["cohorts"][0]["given"]) == names
    [others] = answer_of(
        capsys, "--for-others", "exposure", "colour", "--given", given, "--db", database
    )
    assert sum(each["users"] for each in others["cohorts"]) <= USERS


def test_a_column_that_is_called_so_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = stored(written(tmp_path, header="family"))
    [found] = answer_of(capsys, "exposure", "colour", "--given", "family", "--db", database)
    assert found["given"] == ["family"]
    assert {each["given"]["family"] for each in found["cohorts"]} == {*AGENTS.values()}


@pytest.mark.parametrize("given", ["family", "system", "family,system"])
def test_a_log_that_tells_neither_says_what_would(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = stored(written(tmp_path, header="note"))
    capsys.readouterr()
    assert run(["exposure", "colour", "--given", given, "--db", database]) != 0
    said = capsys.readouterr().err
    assert "of no user is known" in said
    assert "user agent" in said


def screen(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert run([*words, "--format", "table"]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_decision_names_who_is_worst_off_and_limits_all_large_cohorts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A set of 5 % on average may expose nearly all of one browser and system."""
    database = stored(written(tmp_path))
    asked = ["decide", "--budget", "9%", "--candidates", "colour,depth", "--db", database]
    said = screen(capsys, *asked, "--fixed-question", "-q")
    assert "A site may read 2 of 2 APIs" in said
    linked = re.search(r"links the visits of more than ([\d.]+) % of 6,000 users", said)
    assert linked is not None
    alone = SHARES["firefox", "Linux"] / VALUES
    truth = (VALUES * (1 - (1 - alone) ** USERS) + 3) / USERS
    assert float(linked[1]) / 100 >= truth
    worst = re.search(
        r"Worst-off group of at least 1 % of the users: firefox on Linux, ([\d.]+) % of ([\d,]+) "
        r"users exposed \(limits ([\d.]+) % to ([\d.]+) %\)",
        said,
    )
    assert worst is not None, said
    p = SHARES["firefox", "Linux"] / VALUES
    exposed = 100 * float(exposure_probability(p, k=10, population=USERS))
    assert float(worst[3]) <= exposed <= float(worst[4])
    most = re.search(
        r"Of each browser family and operating system with 5 % of the users or more, at most "
        r"([\d.]+) % are exposed",
        said,
    )
    # Linux has 5 % of the users, so the limit of all is about it as well
    assert most is None or float(most[1]) >= exposed


@pytest.mark.parametrize(
    "options",
    [["--setting", "sample"], ["--missing", "exposed"], ["--bias", "1.2"], ["--missing", "drop"]],
)
def test_decisions_without_cohorts_say_what_they_can(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = stored(written(tmp_path))
    asked = ["decide", "--budget", "20%", "--candidates", "colour,depth", "--db", database]
    said = screen(capsys, *asked, *options, "-q")
    assert ("No method" in said) == (options[1] != "sample")
    assert ("Worst-off group" in said) == (options[1] == "drop")


def test_sentences_that_nobody_sees_are_not_worked_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take an eighth of the time of a decision, and stand in no JSON."""
    log, asked = tmp_path / "log.csv", list[object]()
    log.write_text("user,depth\n" + "".join(f"u{user},{user % 2}\n" for user in range(60)))
    decide = ["decide", "--budget", "50%", "--db", stored(log), "--candidates", "depth"]
    for place, answer in (
        ("cli.questions.report_people", None),
        ("monitor.windows_that_decide", None),
        ("answers.beside.decisions_beside", ()),
    ):
        counted = partial(lambda told, *_: asked.append(told) or told, answer)
        monkeypatch.setattr(f"fpmonitor.{place}", counted)
    file = ["-o", str(tmp_path / "d.json")]
    for expected, words in (
        (0, ["-q", *file]),
        (0, ["-q", "--format", "json"]),
        (0, ["-q", "--format", "csv"]),
        (1, ["-q", "--format", "table"]),
        (3, file),
    ):
        asked.clear()
        assert run([*decide, *words]) == 0
        assert len(asked) == expected, words


def test_log_that_tells_no_browser_has_no_line_of_cohorts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = stored(written(tmp_path, header="note"))
    said = screen(
        capsys, "decide", "--budget", "20%", "--candidates", "colour,depth", "--db", database, "-q"
    )
    assert "No method that uses the recommended APIs alone links" in said
    assert "Worst-off group" not in said
    assert "Of each" not in said


def test_limits_of_cohorts_pay_for_the_choice_of_the_set() -> None:
    """Limits of a set that was chosen after looking are wider than those of one named before."""
    spectrum = CountSpectrum.from_counts(np.full(100, 4))
    question = {"users": 6_000, "k": 10, "population": 6_000, "delta": 0.05}
    named = cohort_limits(exposure_limits(**question), spectrum, 2)
    few = cohort_limits(exposure_limits(**question, universe=10), spectrum, 2)
    many = cohort_limits(exposure_limits(**question, universe=1_000), spectrum, 2)
    larger = cohort_limits(exposure_limits(**question, universe=1_000), spectrum, 4)
    assert larger.lower < many.lower < few.lower < named.lower
