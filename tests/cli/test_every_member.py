"""Every member of a decision file is proved, or refused by name, or is known to say nothing."""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.proof import design, files
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Path_ = tuple[str | int, ...]

USERS = 2_000
APIS = "language,vendor,hardwareConcurrency,screenWidth"
ASKED = ["--k", "10", "--budget", "8%", "-n", str(USERS)]
FEW = ["--k", "10", "--budget", "30%", "-n", str(USERS)]
WITH_LEVELS = """[[component]]
name = "screen"
apis = ["screenWidth"]
levels = [{step = 2000}, {raw = true}]
utility = [0, 1, 5]
[[component]]
apis = ["language"]
levels = [{top = ["en", "de"]}, {raw = true}]
"""
FILES = {
    "levels": WITH_LEVELS,
    "weights": "language = 3\nvendor = 0.5\n",
    "strata": 'by = "country"\n[shares]\nDE = 0.6\nFR = 0.4\n',
}
KINDS: dict[str, list[str]] = {
    "plain": [*ASKED, "--candidates", f"{APIS},platform"],
    "weights": [*ASKED, "--candidates", APIS, "--weights", "weights"],
    "search": [*ASKED, "--candidates", APIS, "--search-users", "1000"],
    "must": [*ASKED, "--candidates", APIS, "--must", "vendor", "--never", "language"],
    "menu": [*ASKED, "--candidates", APIS, "--given", "system", "--given-menu", "family,system"],
    "union": [*ASKED, "--candidates", APIS, "--union-with", "plain.json"],
    "levels": ["--levels", "levels", "--budget", "8%", "--k", "10"],
    "cohorts": [*ASKED, "--candidates", APIS, "--given", "family,system", "--budget-each", "40%"],
    "strata": [*ASKED, "--candidates", APIS, "--strata", "strata"],
    "cluster": [*FEW, "--candidates", APIS, "--cluster", "household"],
    "linked": [*ASKED, "--candidates", APIS, "--link-budget", "40%"],
}
# All members of these are changed; of others what a plain file does not have.
WHOLE = {"plain", "weights", "search", "levels"}
# A blocked set that holds an undecided one may be missing: it is then undecided, and not allowed.
NOT_ALLOWED = {"block", "undecided"}
# How long a search took says nothing of the users.
NOTHING = {"evaluated", "seconds"}
# What a gate does not go by: it has the sentence from the rest, and takes sets in any order. What
# is missing is the default, as in files of before that did not have it.
UNUSED = {"guarantee", "users_possible", "users_needed", "users_range", "engine", "made"}
UNUSED |= {"complete"}
UNUSED_PARTS = {("data", "account")}
# Chains show that too few tests were made after looking, which the audit alone finds again.
UNUSED_PARTS |= {("confirmation", "chains")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("members"), random.Random(5)
    agents = ("(Windows NT 10.0; rv:143.0) Gecko Firefox/143.0", "(X11; Linux x86_64; rv:143.0)")
    rows = [
        {
            "time": "2026-03-01T10:00:00Z",
            "userAgent": f"Mozilla/5.0 {draw.choices(agents, [8, 2])[0]}",
            "language": draw.choice(["en", "de", "fr"]) if draw.random() < 0.96 else f"l{i}",
            "vendor": draw.choice(["Google Inc.", "Apple"]),
            "hardwareConcurrency": draw.choice([2, 4, 8]) if draw.random() < 0.96 else 99 + i,
            "screenWidth": draw.choice([1366, 1440]) if draw.random() < 0.8 else 9000 + i,
            "platform": "Linux",
            "canvas": f"c{draw.randrange(3000)}",
            "household": f"h{i // 2}",
            "country": "DE" if i % 4 else "FR",
        }
        | ({} if i % 30 else {"vendor": None})
        for i in range(USERS)
    ]
    stored(folder, rows)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def proofs_once() -> Iterator[None]:
    """Prove each side once, however many files hold it."""
    known: dict[str, str] = {}
    prove = design.check_proof

    def remembered(*arguments: Any, **options: Any) -> str:
        key = json.dumps([arguments, options], sort_keys=True)
        if key not in known:
            known[key] = prove(*arguments, **options)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "check_proof", remembered)
        yield


def made(folder: Path, kind: str) -> tuple[Path, dict[str, Any]]:
    """The decision of a kind, and its file, which a test may have changed."""
    text = decided(folder, kind)
    file = folder / f"{kind}.json"
    file.write_text(text)
    return file, json.loads(text)


@cache
def decided(folder: Path, kind: str) -> str:
    file = folder / f"{kind}.json"
    if kind == "union":
        made(folder, "plain")
    beside = {*FILES, "plain.json"}
    options = [str(folder / word) if word in beside else word for word in KINDS[kind]]
    db = str(folder / "d.duckdb")
    assert run(["decide", *options, "--db", db, "-q", "-o", str(file)]) == 0
    return file.read_text()


def commands(altered: Path, folder: Path, recommended: Any) -> dict[str, list[str]]:
    """All that carry a file out or prove it, by the users that were decided on."""
    of_levels = isinstance(recommended, dict)
    words = [f"{name}={at}" for name, at in recommended.items()] if of_levels else recommended
    db = ["--db", str(folder / "d.duckdb")]
    found = {
        "audit": ["audit", "certificate", str(altered), *db, "--format", "json"],
        "gate": ["gate", str(altered), "--want", ",".join(words), *db],
        "export": ["export", str(altered), "--to", "tiers" if of_levels else "json"],
    }
    return found if of_levels else found | {"check": ["check", str(altered), *db]}


def members(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """All members of a file with their paths; of long lists some."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, each in value.items():
            yield from members(each, (*path, name))
    elif isinstance(value, list):
        for place in sorted({0, len(value) // 2, len(value) - 1}) if value else ():
            yield from members(value[place], (*path, place))


def others(value: Any) -> list[Any]:
    """What may stand in the place of a member."""
    found: dict[type, Callable[[Any], list[Any]]] = {
        bool: lambda told: [not told, int(told)],
        int: lambda told: [told + 1, told - 1, 0, str(told)],
        float: lambda told: [told * 1.02 or 0.02, told * 0.98 or -0.02, 0, str(told)],
        str: lambda told: [f"{told}x", [told]],
        list: lambda told: [[], told[::-1], told[:-1], [*told, *told[-1:]]],
        dict: lambda _: [{}],
        type(None): lambda _: [1, "x"],
    }
    return [*found[type(value)](value), None]


def changes(content: Mapping[str, Any]) -> Iterator[tuple[Path_, dict[str, Any]]]:
    """Files of which one member is changed, or gone, or one more, with its path."""
    yield ("stranger",), {**content, "stranger": 1}
    for part in content.keys() & {"policy", "view", "data"}:
        yield (part,), {**content, part: {**content[part], "stranger": 1}}
    for path, value in members(content):
        if "proof" in path:  # `test_audit_certificate` changes its numbers
            continue
        for other in [*others(value), ...]:
            changed = copy.deepcopy(dict(content))
            place: Any = changed
            for name in path[:-1]:
                place = place[name]
            if other is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = copy.deepcopy(other)
            is_same = type(value) is float and type(other) in {int, float} and value == other
            if not is_same and json.dumps(changed) != json.dumps(content):
                yield path, changed


NOTHING_WEIGHS = {
    "weights": dict.fromkeys([*APIS.split(","), "platform"], 0.0),
    "recommended": [],
    "utility": 0.0,
    "utility_bound": 0.0,
}
NOTED = "weights, must, never, levels, scope, unions"
# What is changed, and the claim that the audit refutes; none where the file is not read at all.
WISHES: dict[str, tuple[tuple[Callable[[dict[str, Any]], Any], str], ...]] = {
    "levels": (
        (lambda file: file["components"][0].update(utility=[0, 5, 6]), NOTED),
        (lambda file: file["components"][1].update(utility=[0, 0, 0]), NOTED),
        (
            lambda file: file["components"][0].update(
                levels=[{"step": 2001.0}, {"raw": True}], shows=["withheld", "raw", "step 2001"]
            ),
            NOTED,
        ),
        (lambda file: file["components"][0].update(shows=["withheld", "raw", "step 3000"]), ""),
        (lambda file: file["policy"].update(delta=None), ""),
        (lambda file: file["data"]["account"].update(API=99), "account"),
        (lambda file: file.pop("wishes"), NOTED),
        (lambda file: file.update(made="2020-01-01"), NOTED),
    ),
    "must": (
        (lambda file: file.pop("must"), NOTED),
        (lambda file: file.pop("never"), NOTED),
        (lambda file: file.update(must=["hardwareConcurrency"]), NOTED),
    ),
    "weights": (
        (lambda file: file["weights"].update(language=2.0), NOTED),
        (lambda file: file["weights"].update(screenWidth=0.001), NOTED),
        (lambda file: file.pop("weights"), NOTED),
    ),
}


def made_coherent(file: dict[str, Any]) -> dict[str, Any]:
    """Return a changed file with what follows from its wishes, as its author would."""
    if "components" in file:
        for name in ("recommended", "utility", "utility_bound"):
            file.pop(name)
        worth = {one["name"]: one["utility"] for one in file["components"]}

        def of(levels: dict[str, int]) -> float:
            return sum(worth[name][levels.get(name, 0)] for name in worth)

        best = max(file["allow"], key=of)
        return {**file, "recommended": best, "utility": of(best), "utility_bound": of(best)}
    must, never = {*file.get("must", ())}, {*file.get("never", ())}
    weights = file.get("weights", {})
    sets = [{*apis} - never for apis in file["allow"] if must <= {*apis}] or [set()]

    def weight(apis: set[str]) -> float:
        return sum(weights.get(api, 1.0) for api in apis)

    best_set = max(sets, key=weight)
    told = {"utility": weight(best_set), "utility_bound": weight(best_set)}
    return {**file, "recommended": sorted(best_set), **told}


@pytest.mark.parametrize("kind", sorted(WISHES, reverse=True))
def test_a_wish_that_nobody_had_is_refused(
    kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in a file whose other members follow from it."""
    file, content = made(folder, kind)
    altered = folder / "wished.json"
    for number, (change, claim) in enumerate(WISHES[kind]):
        changed = copy.deepcopy(content)
        change(changed)
        changed = made_coherent(changed)
        altered.write_text(json.dumps(changed))
        command = commands(altered, folder, changed["recommended"])
        capsys.readouterr()
        assert run(command["audit"]) == (1 if claim else 2), number
        if claim:
            rows = json.loads(capsys.readouterr().out)
            assert claim in {row["claim"] for row in rows if row["answer"] == "not proved"}, number
        assert run(command["gate"]) == 2, number
    capsys.readouterr()
    whole = commands(file, folder, content["recommended"])
    assert run(whole["audit"]) == 0, capsys.readouterr().out
    assert (run(whole["gate"]), run(whole["export"])) == (0, 0), capsys.readouterr().err
    assert kind == "levels" or run(whole["check"]) in {0, 3}, capsys.readouterr().err


@pytest.mark.each
@pytest.mark.parametrize(
    ("kind", "more", "exits"),
    [
        ("levels", {"must": ["language"]}, {2}),
        ("levels", {"bias_tolerated": [50.0]}, {2}),
        ("levels", {"users_needed": [4]}, {2}),
        ("levels", {"level": 0.5}, {2}),
        ("levels", {"users_possible": [9]}, {1}),
        ("levels", {"engine": "queries"}, {1}),
        ("plain", NOTHING_WEIGHS, {1}),
        ("plain", NOTHING_WEIGHS | {"scope": None, "wishes": None}, {3}),  # as files of before
        ("plain", {"observed": 5_000}, {2}),
        ("plain", {"search": {"weights": {}, "must": [], "never": []}}, {2}),
        ("plain", {"must": ["vendor"], "never": ["vendor"]}, {2}),
        ("levels", {"must": ["screen=2"], "never": ["screen=1"]}, {2}),
        ("plain", {"components": []}, {1}),
    ],
)
def test_what_a_file_cannot_have_or_nobody_noted_is_not_proved(
    kind: str, more: dict[str, Any], exits: set[int], folder: Path
) -> None:
    content = made(folder, kind)[1]
    altered = folder / "more.json"
    changed = {name: value for name, value in (content | more).items() if value is not None}
    altered.write_text(json.dumps(changed))
    command = commands(altered, folder, content["recommended"])
    assert run(command["audit"]) in exits
    for name, words in command.items():
        assert exits != {2} or run(words) == 2, name


@pytest.mark.each
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (
            "cluster",
            [lambda file: file.update(observed=USERS + 1), lambda file: file.pop("observed")],
        ),
        ("strata", [lambda file: file.update(binding_stratum="DE")]),
    ],
)
def test_another_least_share_or_draw_is_refused(
    kind: str, changes: list[Callable[[dict[str, Any]], Any]], folder: Path
) -> None:
    file, content = made(folder, kind)
    command = commands(file, folder, content["recommended"])
    assert run(command["gate"]) == run(command["audit"]) == 0
    for change in changes:
        changed = copy.deepcopy(content)
        change(changed)
        file.write_text(json.dumps(changed))
        assert (run(command["gate"]), run(command["audit"])) == (2, 1)


@pytest.mark.each
@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        (
            "cohorts",
            lambda file: file["policy"]["cohorts"].update(least_share=0.049),
            "least_share",
        ),
        ("cohorts", lambda file: file["policy"]["cohorts"].update(worst_share=True), "worst_share"),
        (
            "cohorts",
            lambda file: file["policy"]["cohorts"].update(given=["browser family"]),
            "`policy.cohorts.given`",
        ),
        ("cohorts", lambda file: file["policy"].pop("cohorts"), "`policy.cohorts`"),
        ("plain", lambda file: file["scope"].update(vocabulary=1), "`scope.vocabulary`"),
        ("plain", lambda file: file["data"].update(days=["2026-01-01"] * 2), "`data.days`"),
        ("levels", lambda file: file["data"].update(days=["2026-01-01"] * 2), "`data.days`"),
    ],
)
def test_what_a_file_alone_contradicts_is_read_by_no_command(
    kind: str,
    change: Callable[[dict[str, Any]], Any],
    named: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    content = made(folder, kind)[1]
    change(content)
    altered = folder / "alone.json"
    altered.write_text(json.dumps(content))
    for name, words in commands(altered, folder, content["recommended"]).items():
        capsys.readouterr()
        assert run(words) == 2, name
        said = capsys.readouterr().err
        assert named in said, name
        assert len(said.splitlines()) <= 2, name


@pytest.mark.usefixtures("proofs_once")
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_changed_anywhere_is_refused(
    kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, content = made(folder, kind)
    altered = folder / "altered.json"
    command = commands(altered, folder, content["recommended"])
    audit, gate = command["audit"], command["gate"]
    altered.write_text(file.read_text())
    assert run(gate) == 0
    assert run(audit) == 0, capsys.readouterr().out
    accepted, carried_out = set(), set()
    known = {*map(_shape, dict(members(made(folder, "plain")[1])))}
    for path, changed in changes(content):
        if kind not in WHOLE and _shape(path) in known:
            continue
        altered.write_text(json.dumps(changed))
        capsys.readouterr()
        audited, said = run(audit), capsys.readouterr()
        assert audited in {0, 1, 2, 3}, path
        assert audited != 2 or len(said.err.splitlines()) <= 2, said.err
        # Which sets the other users confirmed has no order.
        same = path[0] == "confirmation" and _in_order(changed) == _in_order(content)
        if audited == 0 and not same:
            accepted.add(path[0])
        if run(gate) != 0 or _lacks(changed, path) or path[:2] in UNUSED_PARTS:
            continue
        if _in_order(changed) != _in_order(content) and not _is_weaker(content, changed):
            carried_out.add(path[0])
    weaker = set() if kind in WHOLE else NOT_ALLOWED
    assert accepted == NOTHING if kind in WHOLE else accepted <= NOTHING | weaker
    assert carried_out <= NOTHING | UNUSED | weaker


def _shape(path: Path_) -> Path_:
    return tuple(name for name in path if isinstance(name, str))


def _is_weaker(content: Mapping[str, Any], changed: Mapping[str, Any]) -> bool:
    """Whether a file promises less: a larger δ, or more questions that were asked before."""
    said = changed["policy"]["delta"], changed.get("asked_before", 0)
    known = content["policy"]["delta"], content.get("asked_before", 0)
    numbers = all(type(one) in {int, float} for one in said)
    return numbers and said != known and said[0] >= known[0] and said[1] >= known[1]


def _lacks(content: Any, path: Path_) -> bool:
    for name in path[:-1]:
        content = content[name]
    return isinstance(content, dict) and path[-1] not in content


def _in_order(value: Any) -> Any:
    """A file with its lists in order, and nothing in them twice."""
    if isinstance(value, dict):
        return {name: _in_order(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(_in_order(each)) for each in value})
    return value
