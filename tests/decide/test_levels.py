"""`decide --levels`: how coarse each API must be shown, on stored users."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fpmonitor.cli import run
from fpmonitor.decide.files import read_any_decision
from fpmonitor.errors import InputError
from fpmonitor.population.levels import LevelMap, read_levels
from tests.asked import answer_of
from tests.stored import stored

USERS = 3000
LEVELS = """
[[component]]
name = "screen"
apis = ["Screen.width", "Screen.height"]
levels = [{raw = true}, {step = [100, 50]}, {sizes = [[800, 600], [400, 300]]}]
utility = [0, 1, 3, 4]
[[component]]
apis = ["navigator.deviceMemory"]
levels = [{raw = true}, {edges = [1, 4, 8], name = "tiers"}]
[[component]]
apis = ["agent"]
levels = [{raw = true}, {regex = "^[A-Z][a-z]+"}, {top = ["Firefox"]}]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("levels")
    stored(folder, map(user, range(USERS)))
    (folder / "levels.toml").write_text(LEVELS)
    return folder


def user(i: int) -> dict[str, Any]:
    rare = i % 60 == 0
    told = {
        "Screen.width": 300 + i % 7 * 100 + i % 3,
        "Screen.height": 250 + i % 11 * 60,
        "agent": f"{'Firefox' if i % 3 else 'Chrome'}/{i % 5}" + f" {i}" * rare,
    }
    return told if i % 10 == 9 else {**told, "Navigator.deviceMemory": [0.5, 2, 4, 8, 16][i % 5]}


def shown(i: int, vector: tuple[int, ...]) -> tuple[object, ...]:
    """What a user shows, written a second time."""
    told = user(i)
    screen, memory, agent = vector
    size: object = (told["Screen.width"], told["Screen.height"])
    if screen == 2:
        size = told["Screen.width"] // 100 * 100, told["Screen.height"] // 50 * 50
    elif screen == 1:
        coarser = told["Screen.width"] // 100 * 100, told["Screen.height"] // 50 * 50
        fits = [s for s in ((800, 600), (400, 300)) if s[0] <= coarser[0] and s[1] <= coarser[1]]
        size = fits[0] if fits else "other"
    capacity = told.get("Navigator.deviceMemory")
    if memory == 1 and capacity is not None:
        capacity = max((e for e in (1, 4, 8) if e <= capacity), default="below")
    name = told["agent"]
    if agent < 3:
        name = name.partition("/")[0]
    if agent == 1:
        name = name if name == "Firefox" else "other"
    parts = ((screen, size), (memory, capacity), (agent, name))
    return tuple(part for level, part in parts if level)


def asked(folder: Path, *more: str) -> list[str]:
    db, levels = str(folder / "d.duckdb"), str(folder / "levels.toml")
    return ["decide", "--levels", levels, "--budget", "0.05", "--db", db, "-q", *more]


def decided(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    return dict(answer_of(capsys, *asked(folder, *more)))


def below(vector: tuple[int, ...], others: list[dict[str, int]]) -> bool:
    names = ("screen", "navigator.deviceMemory", "agent")
    listed = [[other.get(name, 0) for name in names] for other in others]
    return any(all(map(int.__le__, vector, other)) for other in listed)


def test_of_observed_users_alone_the_vectors_within_the_budget_are_allowed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = decided(folder, capsys, "--setting", "sample", "--k", "20")
    within = set()
    for vector in itertools.product(range(4), range(3), range(4)):
        groups = Counter(shown(i, vector) for i in range(USERS))
        if sum(users for users in groups.values() if users < 20) <= 0.05 * USERS:
            within.add(vector)
        assert below(vector, answer["allow"]) == (vector in within), vector
    assert 1 < len(within) < 48
    assert answer["complete"]
    assert not answer["undecided"]
    utility = [(0, 1, 3, 4), (0, 0.5, 1), (0, 1 / 3, 2 / 3, 1)]
    best = max(sum(u[at] for u, at in zip(utility, vector, strict=True)) for vector in within)
    assert answer["utility"] == pytest.approx(best, abs=1e-12)
    assert answer["utility_bound"] == answer["utility"]
    assert answer["components"][1]["apis"] == ["Navigator.deviceMemory"]
    assert answer["components"][1]["shows"] == ["withheld", "tiers", "raw"]


def test_of_a_population_what_is_certified_is_said_with_its_conditions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = decided(folder, capsys, "--k", "20")
    exact = decided(folder, capsys, "--setting", "sample", "--k", "20")
    vectors = [*itertools.product(range(4), range(3), range(4))]
    allowed = {vector for vector in vectors if below(vector, answer["allow"])}
    assert {(0, 0, 0)} < allowed <= {v for v in vectors if below(v, exact["allow"])}
    assert answer["undecided"]
    assert (
        "every level vector on the allow list, like every coarser one, exposes"
        in (answer["guarantee"])
    )
    assert (
        "its levels and its view of the users were fixed before the data were seen"
        in (answer["guarantee"])
    )
    assert len(answer["proof"]["allow"]["nats"]) == 3 + 2 + 3 + 1
    assert run([*asked(folder, "--k", "20"), "--format", "table"]) == 0
    assert "What one site may read together" in capsys.readouterr().out


def test_who_lacks_a_value_is_exposed_at_every_level_that_shows_any(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = decided(folder, capsys, "--setting", "sample", "--k", "2", "--missing", "exposed")
    assert answer["allow"]
    assert all("navigator.deviceMemory" not in vector for vector in answer["allow"])


def test_the_lowest_vector_is_free_only_where_it_withholds_everything(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "least.toml").write_text(LEVELS + "least = 3\n")
    more = ["--levels", str(folder / "least.toml"), "--k", "20"]
    answer = decided(folder, capsys, *more, "--budget", "0.01")
    assert answer["recommended"] is None
    assert not answer["allow"]
    assert run([*asked(folder, *more), "--budget", "0.01", "--format", "table"]) == 0
    assert "No level vector is certified" in capsys.readouterr().out


def test_a_gate_answers_as_the_decision_and_where_it_was_cut_short_as_the_users(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, cut = folder / "whole.json", folder / "cut.json"
    assert run(asked(folder, "--k", "20", "-o", str(whole))) == 0
    assert run(asked(folder, "--k", "20", "--time-limit", "0", "-o", str(cut))) == 0
    answer, stopped = json.loads(whole.read_text()), json.loads(cut.read_text())
    assert read_any_decision(whole).to_json() == answer
    assert not stopped["complete"]
    assert stopped["utility_bound"] >= answer["utility"]
    capsys.readouterr()

    def verdict(path: Path, vector: tuple[int, ...], *more: str) -> str:
        names = ("screen", "navigator.deviceMemory", "agent")
        want = ",".join(f"{name}={level}" for name, level in zip(names, vector, strict=True))
        assert (
            run(["gate", str(path), "--want", want, "--have", "agent=0", "--exit-zero", *more]) == 0
        )
        return str(json.loads(capsys.readouterr().out)["verdict"])

    for vector in ((0, 0, 0), (3, 2, 3), (1, 1, 1), (2, 0, 2), (0, 2, 2), (1, 2, 0)):
        asked_now = verdict(cut, vector, "--db", str(folder / "d.duckdb"))
        assert asked_now == verdict(whole, vector), vector
        assert (asked_now == "allow") == below(vector, answer["allow"])
    assert verdict(cut, (1, 1, 1)) == "unknown"
    resumed = decided(folder, capsys, "--k", "20", "--resume", str(cut))
    told = ("allow", "block", "undecided", "recommended", "utility", "complete", "guarantee")
    assert {name: resumed[name] for name in told} == {name: answer[name] for name in told}
    again = decided(folder, capsys, "--k", "20", "--resume", str(whole))
    assert {name: again[name] for name in told} == {name: answer[name] for name in told}
    assert run(asked(folder, "--k", "21", "--resume", str(cut))) == 2
    assert "differs in k" in capsys.readouterr().err
    for want, message in (("screen", "no level"), ("screen=4", "0 to 3"), ("scren=1", "nearest")):
        assert run(["gate", str(whole), "--want", want]) == 2
        assert message in capsys.readouterr().err


def test_levels_are_proved_again_from_the_users_and_changed_files_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, db = folder / "proved.json", str(folder / "d.duckdb")
    assert run(asked(folder, "--k", "20", "-o", str(made))) == 0
    audit = ["audit", "certificate", str(made), "--format", "json"]
    capsys.readouterr()
    assert run(audit) == 3
    capsys.readouterr()
    assert run([*audit, "--db", db]) == 0
    claims = {row["claim"] for row in json.loads(capsys.readouterr().out)}
    assert {"proof of allow", "proof of block", "lists", "coverage", "allow", "block"} <= claims
    honest = json.loads(made.read_text())
    # Lists agree: what was blocked is allowed, and nothing holds it.
    blocked = honest["block"][0]

    def within(vector: dict[str, int]) -> bool:
        return all(level <= blocked.get(name, 0) for name, level in vector.items())

    rest = {
        name: [vector for vector in honest[name] if not within(vector)]
        for name in ("block", "undecided")
    }
    nats = honest["proof"]["allow"]["nats"]
    looser = honest["proof"]["allow"] | {"nats": [nats[0], *(each / 2 for each in nats[1:])]}
    for change, code in (
        (rest | {"allow": [*honest["allow"], blocked]}, 1),
        ({"block": []}, 1),
        ({"proof": honest["proof"] | {"allow": looser}}, 1),
        ({"recommended": blocked}, 2),
    ):
        made.write_text(json.dumps(honest | change))
        assert run([*audit, "--db", db]) == code, change
    made.write_text(json.dumps(honest | rest | {"allow": [*honest["allow"], blocked]}))
    want = ",".join(f"{name}={level}" for name, level in blocked.items())
    capsys.readouterr()
    assert run(["gate", str(made), "--want", want, "--db", db]) == 2
    assert "`allow`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "component"),
        ("[[component]]\napis = []\nlevels = [{raw = true}]", "name its APIs"),
        ("[[component]]\napis = ['a']\nlevels = []", "1 to 64 levels"),
        ("[[component]]\napis = ['a']\nlevels = [{}]", "a level is"),
        ("[[component]]\napis = ['a']\nlevels = [{raw = true, step = 5}]", "a level is"),
        ("[[component]]\napis = ['a']\nlevels = [{edges = [4, 1]}]", "edges must increase"),
        ("[[component]]\napis = ['a']\nlevels = [{regex = '('}]", "does not compile"),
        *(
            (f"[[component]]\napis = ['a']\nlevels = [{{regex = '{hostile}'}}]", "does not compile")
            for hostile in ("a{99999999999999999999}", "(" * 3000 + ")" * 3000)
        ),
        ("[[component]]\napis = ['a']\nlevels = [{step = [1, 2]}]", "2 numbers for 1 API"),
        ("[[component]]\napis = ['a']\nlevels = [{step = 0}]", "step"),
        ("[[component]]\napis = ['a']\nlevels = [{step = nan}]", "step"),
        ("[[component]]\napis = ['a']\nlevels = [{sizes = [[1, 2]]}]", "sizes are of two"),
        ("[[component]]\napis = ['a']\nlevels = [{stpe = 5}]", "stpe"),
        ("[[component]]\napis = ['a']\nlevels = [{raw = true}]\nutility = [0]", "2 numbers"),
        ("[[component]]\napis = ['a']\nlevels = [{raw = true}]\nutility = [1, 0]", "nor fall"),
        ("[[component]]\napis = ['a']\nlevels = [{raw = true}]\nutility = [0, inf]", "nor fall"),
        ("[[component]]\napis = ['a']\nlevels = [{raw = true}]\nleast = 2", "least and most"),
        ("[[component]]\napis = ['a']\nlevels = [{raw = true}]\nleast = 1", "nothing to choose"),
        (2 * "[[component]]\nname = 'x'\napis = ['a']\nlevels = [{raw = true}]\n", "twice"),
        (2 * "[[component]]\napis = ['a']\nlevels = [{raw = true}]\n", "twice"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "levels.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_levels(tmp_path / "levels.toml")


def test_a_report_draws_what_levels_cost_and_hides_groups_below_k(
    folder: Path, tmp_path: Path
) -> None:
    decision, report = tmp_path / "levels.json", tmp_path / "report.html"
    assert run(asked(folder, "--k", "20", "-o", str(decision))) == 0
    drawn = []
    for hidden in (0, 3, 19):
        others = tmp_path / str(hidden)
        others.mkdir()
        stored(others, (user(0 if i < hidden else 1 + 3 * (i % 2)) for i in range(600)))
        db = str(others / "d.duckdb")
        today = ["--practice", "screen=3,agent=1"]
        assert (
            run(["export", "--report", str(decision), "--db", db, "-o", str(report), "-q", *today])
            == 0
        )
        text = report.read_text()
        assert "screen 3, agent 1 (today&#x27;s practice)" in text
        assert "What finer levels cost" in text
        assert text.count("<circle") > 3
        drawn.append(text[text.index('id="trade-off"') : text.index('id="border"')])
    assert drawn[0] == drawn[1] == drawn[2]


def test_options_that_say_nothing_of_levels_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(asked(folder, "--realised")) == 2
    assert "--realised: not with --levels" in capsys.readouterr().err
    assert run(asked(folder, "--engine", "duckdb")) == 2
    assert "--engine: not with --levels" in capsys.readouterr().err
    (folder / "missing.toml").write_text(LEVELS.replace("agent", "agnet"))
    assert run(asked(folder, "--levels", str(folder / "missing.toml"))) == 2
    assert "agnet" in capsys.readouterr().err
    listed = folder / "levels.json"
    assert run(asked(folder, "-o", str(listed))) == 0
    capsys.readouterr()
    assert run(["check", str(listed), "--db", str(folder / "d.duckdb")]) == 2
    assert "decides levels, and not sets" in capsys.readouterr().err


def test_a_file_of_others_is_refused_or_judged_anew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, forged = folder / "honest.json", folder / "forged.json"
    assert run(asked(folder, "--k", "20", "-o", str(path))) == 0
    honest = json.loads(path.read_text())
    nothing: dict[str, Any] = {"complete": False, "allow": [], "block": [], "undecided": []}
    nothing["recommended"] = None
    short = {side: told | {"nats": told["nats"][:2]} for side, told in honest["proof"].items()}
    forged.write_text(json.dumps(honest | nothing | {"proof": short}))
    capsys.readouterr()
    assert decided(folder, capsys, "--k", "20", "--resume", str(forged))["allow"] == honest["allow"]
    first, *others = honest["components"]
    for change in (
        {"proof": {"allow": honest["proof"]["allow"]}},
        {"proof": {"allow": {}, "block": {}}},
        {"components": [first | {"least": 9}, *others]},
        {"components": [first | {"levels": []}, *others]},
        {"recommended": {"screen": -1}},
        {"recommended": {each["name"]: each["most"] for each in honest["components"]}},
        {"allow": [*honest["allow"], honest["block"][0]]},
    ):
        forged.write_text(json.dumps(honest | change))
        assert run(["gate", str(forged), "--want", "screen=1"]) == 2, change
        assert "forged.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("level", "value", "what"),
    [
        (LevelMap(step=0.5), "1.75", "1.5"),
        (LevelMap(step=0.1), "0.3", "0.3"),
        (LevelMap(step=50), "-1", "-50"),
        (LevelMap(step=50), "49.999", "0"),
        (LevelMap(step=50), "wide", "other"),
        (LevelMap(step=50), "1e999999999", "other"),
        (LevelMap(step=50), "9" * 5000, "other"),
        (LevelMap(step=2), "below 4", "2"),
        (LevelMap(edges=(1, 4)), "0.5", "below 1"),
        (LevelMap(edges=(1, 4)), "4", "4"),
        (LevelMap(edges=(1, 4)), "below 4", "1"),
        (LevelMap(edges=(0.25, 4)), "3", "0.25"),
        (LevelMap(top=("a",)), "a", "a"),
        (LevelMap(top=("a",)), "b", "other"),
        (LevelMap(major=True, regex="^.*/[0-9]+"), "Firefox/152.0.1 x", "Firefox/152"),
        (LevelMap(regex="z"), "a", "other"),
        (LevelMap(regex="^s"), "sha256:" + "0" * 32 + ":9000", "other"),
        (LevelMap(raw=True), "sha256:" + "0" * 32 + ":9000", "sha256:" + "0" * 32 + ":9000"),
        (LevelMap(constant=""), "a", ""),
    ],
)
def test_a_level_shows(level: LevelMap, value: str, what: str) -> None:
    assert level.shown((value,)) == (what,)
    assert level.shown((7,)) == (7,), "what is no value stays what it is"


def test_what_must_and_must_not_be_shown_holds_of_every_listed_vector(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--setting", "sample", "--k", "20", "--must", "screen=1", "--never", "agent=2"]
    answer = decided(folder, capsys, *more)
    whole = decided(folder, capsys, "--setting", "sample", "--k", "20")
    meant = [
        vector
        for vector in itertools.product(range(1, 4), range(3), range(2))
        if below(vector, whole["allow"])
    ]
    assert (answer["must"], answer["never"]) == (["screen=1"], ["agent=2"])
    assert all(below(vector, answer["allow"]) for vector in meant)
    assert all(each["screen"] >= 1 and each.get("agent", 0) < 2 for each in answer["allow"])
    made = folder / "must.json"
    assert run([*asked(folder, *more), "-o", str(made)]) == 0
    assert read_any_decision(made).to_json() == {
        **answer,
        "seconds": read_any_decision(made).seconds,
    }
    capsys.readouterr()
    for option, entry, message in (
        ("--must", "screen=9", "levels are 0 to 3"),
        ("--must", "screen", "names no level"),
        ("--never", "scren=1", "nearest"),
        ("--never", "screen=1", "both must and must not"),
    ):
        more = ["--must", "screen=1"] if option == "--never" else []
        assert run(asked(folder, *more, option, entry)) == 2
        assert message in capsys.readouterr().err


@pytest.mark.long
def test_lists_of_levels_are_cut_and_say_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = decided(folder, capsys, "--k", "20")
    answer = decided(folder, capsys, "--k", "20", "--max-sets", "1")
    assert len(whole["allow"]) > 1
    assert [*map(len, (answer["allow"], answer["block"], answer["undecided"]))] == [1, 1, 1]
    assert answer["allow"] == [answer["recommended"]] == [whole["recommended"]]
    assert answer["cut"]["allow"] == len(whole["allow"])
    assert not answer["complete"]
    path = folder / "cut lists.json"
    assert run([*asked(folder, "--k", "20", "--max-sets", "1"), "-o", str(path)]) == 0
    assert run(["gate", str(path), "--want", "screen=1", "--exit-zero"]) == 0
    capsys.readouterr()
    db = str(folder / "d.duckdb")
    for vector in whole["allow"]:
        want = ",".join(f"{name}={level}" for name, level in vector.items())
        assert run(["gate", str(path), "--want", want, "--db", db]) == 0
    assert run(["audit", "certificate", str(path), "--db", db]) in (0, 3)


DRAWN = {"users": 3000, "observed": 4000, "cluster": "agent", "binding": None, "unobserved": None}
BEFORE = Path(__file__).parents[2] / "fixtures" / "reference" / "levels_before.json"


def test_a_file_of_before_is_read_and_proved_as_one_of_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads(BEFORE.read_text())
    decision = read_any_decision(BEFORE)
    assert decision.users == before["users"] == 3000
    assert decision.recommended == ("screen=2",)
    now = tmp_path / "now.json"
    now.write_text(json.dumps(decision.to_json()))
    assert read_any_decision(now) == decision
    for name in ("allow", "block", "undecided", "recommended", "components", "proof"):
        assert decision.to_json()[name] == before[name], name
    for path in (BEFORE, now):
        assert run(["audit", "certificate", str(path), "--format", "json"]) == 3
        findings = json.loads(capsys.readouterr().out)
        open_claims = {row["claim"] for row in findings if row["answer"] != "proved"}
        assert open_claims == {"verdicts"}
        for vector, verdict in ((before["allow"][0], "allow"), (before["block"][0], "block")):
            want = ",".join(f"{name}={level}" for name, level in vector.items())
            assert run(["gate", str(path), "--want", want, "--exit-zero"]) == 0
            answer = json.loads(capsys.readouterr().out)
            assert (answer["verdict"], answer["because"]) == (verdict, vector)
        assert run(["export", str(path), "--to", "tiers"]) == 0
        capsys.readouterr()


@pytest.mark.parametrize(
    ("change", "is_read"),
    [
        ({"source": "a.jsonl", "masked": ["agent"], "unit": "row"}, True),
        ({"drawn": DRAWN}, True),
        ({"drawn": DRAWN | {"binding": "a", "unobserved": 0.01}}, True),
        ({"drawn": "all"}, False),
        ({"drawn": {"users": 3000}}, False),
        ({"view": []}, False),
        ({"users": None}, False),
        ({"allow": [["screen=1"]]}, False),
        ({"allow": [{"screen": "1"}]}, False),
        ({"block": [{}]}, False),
        ({"must": ["scren=1"]}, False),
        ({"components": []}, False),
        ({"components": 7}, False),
        ({"confirmation": {"searched": 7}}, False),
    ],
)
def test_members_of_a_file_of_before_are_taken_over_or_refused(
    tmp_path: Path, change: dict[str, Any], is_read: bool
) -> None:
    path = tmp_path / "levels.json"
    content = json.loads(BEFORE.read_text()) | change
    if "drawn" in change:
        content["policy"]["sample"] = {**content["policy"].get("sample", {}), "cluster": "home"}
    path.write_text(json.dumps(content))
    if not is_read:
        with pytest.raises(InputError):
            read_any_decision(path)
        return
    decision = read_any_decision(path)
    assert (decision.observed or 4000) == 4000
    assert decision.source == change.get("source")
    assert decision.masked == tuple(change.get("masked", ()))
    assert decision.unobserved_share == change.get("drawn", {}).get("unobserved")


def test_a_file_of_before_from_which_a_list_was_taken_is_not_carried_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "levels.json"
    before = json.loads(BEFORE.read_text()) | {"block": [], "undecided": [], "complete": True}
    path.write_text(json.dumps(before))
    assert run(["gate", str(path), "--want", "agent=2"]) == 2
    assert "not to be trusted" in capsys.readouterr().err
