"""A decision file that `audit certificate` would refuse is carried out by nothing."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.assistant import Tools
from fpmonitor.cli import run
from fpmonitor.errors import InputError
from fpmonitor.serve.config import ServeConfig
from fpmonitor.serve.questions import Questions
from fpmonitor.ui.desk import Desk
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Callable

    Content = dict[str, Any]
    Change = Callable[[Content], object]

USERS = 3_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Content]:
    """A database, and a decision with sets of all three verdicts."""
    folder, draw = tmp_path_factory.mktemp("credible"), random.Random(3)
    rows = [
        {
            "userAgent": f"agent {draw.choice('abcde')}" if draw.random() < 0.97 else f"odd {i}",
            "language": draw.choice(["en", "de", "fr"]) if draw.random() < 0.98 else f"l{i}",
            "vendor": draw.choice(["Google Inc.", "Apple"]),
            "hardwareConcurrency": draw.choice([2, 4, 8, 16]),
            "screenWidth": draw.choice([1366, 1440]) if draw.random() < 0.8 else 9000 + i,
        }
        for i in range(USERS)
    ]
    db, file = stored(folder, rows), folder / "d.json"
    command = ["decide", "--k", "10", "--budget", "5%", "--population", str(USERS), "--db", db]
    assert run([*command, "-q", "-o", str(file)]) == 0
    content = json.loads(file.read_text())
    assert content["allow"]
    assert content["block"]
    assert content["undecided"]
    return db, content


def put(value: object, *path: str) -> Change:
    """Put a value in the place of a member."""

    def change(content: Content) -> None:
        for name in path[:-1]:
            content = content[name]
        assert content[path[-1]] != value
        content[path[-1]] = value

    return change


def swap_names(content: Content) -> None:
    names = content["names"]
    names["userAgent"], names["language"] = names["language"], names["userAgent"]


def of_another_bias(content: Content) -> None:
    content["policy"]["sample"] = {"bias": 1.1}


def recommend_less(content: Content) -> None:
    content["recommended"] = content["recommended"][:-1]


# What the rest of a file contradicts, without any data.
WITHIN: dict[str, Change] = {
    "a smaller budget": put(0.04, "policy", "budget"),
    "a larger budget": put(0.06, "policy", "budget"),
    "another k": put(9, "policy", "k"),
    "another population": put(2 * USERS, "policy", "population"),
    "of the population that exists": put(True, "policy", "realised"),
    "of another sample": of_another_bias,
    "the proof of another side": lambda content: content["proof"].update(
        allow=content["proof"]["block"]
    ),
    "another utility": lambda content: content.update(utility=content["utility"] - 1),
    "another bound": lambda content: content.update(utility_bound=content["utility_bound"] + 1),
    "less is recommended": recommend_less,
    "no utility": put(None, "utility"),
    "nothing is blocked": put([], "block"),
    "an allowed set is gone": lambda c: c["allow"].remove(
        next(apis for apis in c["allow"] if apis != c["recommended"])
    ),
    "a member that nobody reads": lambda content: content.update(approved="by a lawyer"),
    "one of the policy": lambda content: content["policy"].update(note="approved"),
}
# What the users contradict.
BESIDE: dict[str, Change] = {
    "a blocked set is allowed": lambda c: c["allow"].append(c["block"].pop()),
    "an undecided set is allowed": lambda c: c["allow"].append(c["undecided"].pop()),
    "an undecided set is blocked": lambda c: c["block"].append(c["undecided"].pop()),
    "an allowed set is blocked": lambda c: c["block"].append(
        c["allow"].pop(next(n for n, s in enumerate(c["allow"]) if s != c["recommended"]))
    ),
    "names are swapped": swap_names,
    "a name is gone": lambda content: content["names"].pop("vendor"),
    "another day": put("2000-01-01", "made"),
    "another coverage": lambda content: content["coverage"].update(vendor=0.5),
    "other masks": put(["userAgent"], "view", "masked"),
    "no coverage": put(None, "coverage"),
    "one user more": put(USERS + 1, "data", "users"),
    "any look": lambda content: content["policy"].update(sample={}),
    "names of no first log": put(0, "first_names"),
    "a larger universe": put(2000, "universe"),
}


def carried_out(file: Path, db: str, content: Content) -> list[list[str]]:
    file.write_text(json.dumps(content))
    wanted = (content["recommended"] or ["vendor"])[0]
    return [
        ["export", str(file), "--to", "ublock", "--partial", "--db", db, "-q"],
        ["check", str(file), "--db", db, "-q"],
        ["gate", str(file), "--want", wanted, "--db", db],
    ]


def test_what_was_decided_is_carried_out(
    made: tuple[str, Content], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db, content = made
    for command in carried_out(tmp_path / "d.json", db, content):
        assert run(command) == 0, command
        assert "not the users" not in capsys.readouterr().err


@pytest.mark.parametrize("name", [*WITHIN, *BESIDE])
def test_what_was_not_decided_is_not(
    name: str, made: tuple[str, Content], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db, content = made[0], json.loads(json.dumps(made[1]))
    (WITHIN | BESIDE)[name](content)
    commands = carried_out(tmp_path / "d.json", db, content)
    if name == "a name is gone":  # what is called otherwise by now is checked nevertheless
        del commands[1]
    alone = [name for name in commands[0] if name not in {"--db", db}]
    for command in [*commands, *([alone] if name in WITHIN else [])]:
        assert run(command) == 2, command
        said = capsys.readouterr().err
        assert len(said.splitlines()) <= 2, said
        assert said.startswith("fpmonitor: error: ")


@pytest.mark.parametrize("name", ["nothing is blocked", "a larger budget"])
def test_what_contradicts_itself_is_neither_watched_nor_served(
    name: str, made: tuple[str, Content], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`watch`, the service and the assistant went by what `audit certificate` refuses."""
    db, content = made[0], json.loads(json.dumps(made[1]))
    WITHIN[name](content)
    file, folder = tmp_path / "d.json", tmp_path / "logs"
    folder.mkdir()
    file.write_text(json.dumps(content))
    watch = ["watch", str(folder), "--decision", str(file), "--db", str(tmp_path / "w.duckdb")]
    assert run([*watch, "--once"]) == 2
    assert "d.json: `" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"d\.json: `"):
        Questions(ServeConfig(db=Path(db), decision=file))
    with pytest.raises(InputError, match=r"d\.json: `"):
        Tools(db=Path(db), decision=file).may_read(["vendor"])


@pytest.mark.parametrize("name", ["nothing is blocked", "a larger budget"])
def test_no_list_of_scripts_and_no_page_goes_by_what_contradicts_itself(
    name: str, made: tuple[str, Content], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db, content = made[0], json.loads(json.dumps(made[1]))
    WITHIN[name](content)
    desk = Desk([], tmp_path / "x.duckdb")
    desk.decision_file.write_text(json.dumps(content))
    written = ["lists", "scripts", str(desk.decision_file), "--to", "adblock", "--db", db]
    assert run(written) == 2
    assert "is not to be trusted" in capsys.readouterr().err
    with pytest.raises(InputError, match="is not to be trusted"):
        desk.decision()


@pytest.mark.parametrize("setting", ["population", "sample"])
def test_a_decision_of_before_which_does_not_tell_its_weights_is_carried_out(
    setting: str, made: tuple[str, Content], tmp_path: Path
) -> None:
    db, (file, weights) = made[0], (tmp_path / "d.json", tmp_path / "weights.toml")
    weights.write_text("vendor = 5\n")
    options = ["--k", "10", "--budget", "5%", "--weights", str(weights), "--setting", setting]
    population = ["--population", str(USERS)] if setting == "population" else []
    assert run(["decide", *options, *population, "--db", db, "-q", "-o", str(file)]) == 0
    content = json.loads(file.read_text())
    assert content.pop("weights") == {"vendor": 5}
    file.write_text(json.dumps(content))
    assert run(["gate", str(file), "--want", "vendor"]) == 2, "a file of now tells its weights"
    del content["made"], content["wishes"], content["scope"]
    for side in (content["proof"] or {}).values():  # a single design, as files of before have it
        side.update(side.pop("designs")[0], limits=side.pop("nats"))
    for command in carried_out(file, db, content):
        assert run(command) == 0, command


def test_other_users_say_nothing_of_a_decision_and_a_list_tells_so(
    made: tuple[str, Content], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "d.json"
    file.write_text(json.dumps(made[1]))
    rows = [{"userAgent": f"agent {i % 7}", "vendor": "Apple"} for i in range(400)]
    db = stored(tmp_path, rows)
    assert run(["export", str(file), "--to", "ublock", "--partial", "--db", db]) == 0
    assert "not the users that were decided on" in capsys.readouterr().err
