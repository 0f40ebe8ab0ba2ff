"""`decide --levels` with levels that are designed from some users and certified on the others."""

from __future__ import annotations

import itertools
import json
import signal
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from fpmonitor.answers import decide as answers
from fpmonitor.cli import run
from fpmonitor.decide import deciding, designs
from fpmonitor.decide.decision import Decision, DesignPart
from fpmonitor.errors import InputError
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.policy import Policy
from fpmonitor.population.levels import Design, LevelMap
from fpmonitor.spectrum import CountSpectrum
from tests.decided import component
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

USERS = 3000
WINDOW = """
[[component]]
name = "window"
apis = ["w", "h"]
levels = [{design = {sizes = 30}}]
"""
CHAIN = """
[[component]]
apis = ["memory"]
levels = [{raw = true}, {design = {buckets = 4}, name = "tiers"}]
[[component]]
apis = ["agent"]
levels = [{raw = true}, {regex = "^[a-z]+"}, {design = {frequent = 3, exposed = 0.01}}]
"""


@cache
def user(i: int) -> dict[str, Any]:
    rng = np.random.default_rng(i)
    return {
        "w": int(rng.choice([1280, 1366, 1536, 1920])) - int(rng.integers(0, 3)) * 17,
        "h": int(rng.choice([720, 768, 864, 1080])) - int(rng.integers(60, 130)),
        "memory": [1, 2, 4, 8, 16][i % 5] + (i % 97 == 0) * i,
        "agent": f"{'firefox' if i % 3 else 'chrome' if i % 4 else 'edge'}/{i % 50}",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("designs")
    stored(folder, map(user, range(USERS)))
    (folder / "window.toml").write_text(WINDOW)
    (folder / "chain.toml").write_text(CHAIN)
    return folder


def asked(folder: Path, levels: str, *more: str) -> list[str]:
    start = ["decide", "--levels", str(folder / levels), "--budget", "0.05", "-q"]
    return [*start, "--db", str(folder / "d.duckdb"), *more]


def decided(folder: Path, levels: str, *more: str) -> dict[str, Any]:
    path = folder / "answer.json"
    assert run([*asked(folder, levels, "--design-share", "30%", *more), "-o", str(path)]) == 0
    answer: dict[str, Any] = json.loads(path.read_text())
    return answer


def test_sizes_of_windows_are_designed_from_some_users_and_tested_on_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = decided(folder, "window.toml")
    tried = answer["design"]["tried"]
    assert answer["design"] == {"share": 0.3, "users": 900, "tried": tried, "by": "values"}
    assert answer["data"]["users"] == 2100
    assert answer["policy"]["population"] == 3000
    assert "2,100 observed users from whom no level was designed" in answer["guarantee"]
    assert "decided once" in answer["guarantee"]
    sizes = answer["components"][0]["levels"][0]["sizes"]
    assert 4 < len(sizes) <= 30
    assert answer["recommended"] == {"window": 1}
    # What is certified of the others holds of all who were observed, to a little chance.
    shown: Counter[object] = Counter()
    for i in range(USERS):
        fits = [s for s in sizes if s[0] <= user(i)["w"] and s[1] <= user(i)["h"]]
        shown[tuple(max(fits, key=lambda s: s[0] * s[1], default=()))] += 1
    assert sum(users for users in shown.values() if users < 10) <= 0.05 * USERS
    # A design is handed on: none of its numbers is known from a few users alone.
    for place, name in enumerate("wh"):
        held = Counter(user(i)[name] for i in range(USERS))
        for size in sizes:
            side = int(size[place])
            steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
            assert any(
                side % step == 0 and sum(held[side + i] for i in range(step)) >= 10
                for step in steps
            ), size
    capsys.readouterr()
    path = str(folder / "answer.json")
    assert (
        run(["gate", path, "--exit-zero", "--want", "window=1", "--db", str(folder / "d.duckdb")])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["verdict"] == "allow"
    assert decided(folder, "window.toml") == answer | {"seconds": pytest.approx(0, abs=60)}


def test_designs_in_order_go_on_from_no_file_of_another_question(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "steps.toml").write_text(
        "[[component]]\nname = 'window'\napis = ['w', 'h']\nlevels = [{step = [200, 100]}]\n"
    )
    decided(folder, "window.toml")
    steps = folder / "steps.json"
    assert run([*asked(folder, "steps.toml"), "-o", str(steps)]) == 0
    for known, share in ((folder / "answer.json", "0.4"), (steps, "0.3")):
        again = asked(folder, "window.toml", "--design-share", share, "--resume", str(known))
        assert run(again) == 2
        assert "design-share; only the same question" in capsys.readouterr().err


def test_a_designed_level_is_one_of_a_chain_with_all_that_a_decision_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = decided(folder, "chain.toml", "--time-limit", "0")
    memory, agent = (component["levels"] for component in answer["components"])
    assert 1 <= len(memory[1]["edges"]) <= 4
    assert memory[1]["name"] == "tiers"
    assert agent[2]["top"]
    assert {*agent[2]["top"]} <= {"firefox", "chrome", "edge"}
    cut = folder / "cut.json"
    cut.write_text(json.dumps(answer))
    whole = decided(folder, "chain.toml")
    resumed = decided(folder, "chain.toml", "--resume", str(cut))
    assert (whole["complete"], whole["allow"]) == (True, resumed["allow"])
    assert run(asked(folder, "chain.toml", "--design-share", "0.4", "--resume", str(cut))) == 2
    assert "differs in" in capsys.readouterr().err
    capsys.readouterr()
    for want in ("memory=2,agent=1", "memory=1,agent=3"):
        found = []
        for path in (cut, folder / "answer.json"):
            db = str(folder / "d.duckdb")
            assert (
                run(
                    [
                        "gate",
                        str(path),
                        "--want",
                        want,
                        "--have",
                        "agent=0",
                        "--exit-zero",
                        "--db",
                        db,
                    ]
                )
                == 0
            )
            found.append(json.loads(capsys.readouterr().out)["verdict"])
        assert found[0] == found[1] != "unknown"
    forged = whole | {
        "components": [whole["components"][0] | {"levels": [{"design": {"sizes": 2}}]}]
    }
    cut.write_text(json.dumps(forged))
    assert run(["gate", str(cut), "--want", "memory=1"]) == 2


def test_what_nothing_is_proved_of_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "plain.toml").write_text("[[component]]\napis = ['w']\nlevels = [{raw = true}]\n")
    share = ("--design-share", "0.3")
    for message, arguments in (
        ("from whom", asked(folder, "window.toml")),
        ("no level is to design", asked(folder, "plain.toml", *share)),
        ("strictly between 0 and 1", asked(folder, "window.toml", "--design-share", "1")),
        ("one by one", asked(folder, "window.toml", *share, "--setting", "sample")),
        ("one by one", asked(folder, "window.toml", *share, "--fake-share", "0.01")),
        ("one by one", asked(folder, "window.toml", *share, "--cluster", "memory")),
        ("drawn for that have numbers", asked(folder, "window.toml", "--design-share", "0.001")),
        ("is of levels", ["decide", "--db", str(folder / "d.duckdb"), "--budget", "5%", *share]),
    ):
        assert run(arguments) == 2, message
        assert message in capsys.readouterr().err
    for text, message in (
        ("levels = [{design = {}}]", "one of buckets"),
        ("levels = [{design = {buckets = 3, sizes = 2}}]", "one of buckets"),
        ("levels = [{design = {buckets = 0}}]", "buckets"),
        ("levels = [{design = {buckets = 3}, step = 5}]", "a level is"),
        ("levels = [{design = {sizes = 3}}]", "sizes are of two"),
    ):
        (folder / "bad.toml").write_text(f"[[component]]\napis = ['w']\n{text}\n")
        assert run(asked(folder, "bad.toml", *share)) == 2
        assert message in capsys.readouterr().err


def policy(users: int, k: int = 10, budget: float = 0.05) -> Policy:
    return Policy(k=k, population=users, budget=budget, delta=0.05, candidates=("a",))


def path_of(level: Design, held: Mapping[Any, int], asked: Policy) -> list[designs.Designed]:
    return designs.path(LevelMap(design=level), held, asked)


def designed(level: Design, held: dict[str, int], asked: Policy) -> list[designs.Designed]:
    return path_of(level, {(value,): count for value, count in held.items()}, asked)


def test_edges_are_the_best_of_all_lists_of_edges() -> None:
    rng, asked = np.random.default_rng(5), policy(200, k=2)
    for _ in range(5):
        values = sorted(rng.choice(np.arange(11, 99), 6, replace=False).tolist())
        held = dict(zip(map(str, values), rng.integers(2, 9, 6).tolist(), strict=True))
        total = sum(held.values())
        sizes = np.arange(total + 1)
        exposed = sizes * exposure_probability(
            np.maximum(sizes - 1, 0) / total, k=2, population=200
        )

        def cost(edges: tuple[int, ...], price: float) -> float:
            groups, lost = Counter[int](), 0.0
            for text, users in held.items():  # noqa: B023 -- called at once
                edge = max((e for e in edges if e <= int(text)), default=0)
                groups[edge] += users
                lost += users * (1 - edge / int(text))
            return lost + price * sum(exposed[size] for size in groups.values())  # noqa: B023

        found = designed(Design(buckets=3), held, asked)
        lists = [each for n in range(1, 4) for each in itertools.combinations(values, n)]
        for price, each in zip(np.geomspace(10, 0.03, 24), found, strict=True):
            edges = tuple(map(int, each.level.edges))
            assert len(edges) <= 3
            assert cost(edges, price) == pytest.approx(min(cost(e, price) for e in lists))


@pytest.mark.parametrize(
    ("level", "held"),
    [
        (
            Design(buckets=4),
            {(str(n),): 1 for n in (*range(100, 700, 100), *range(6000, 6600, 100))},
        ),
        (
            Design(sizes=4),
            {(str(n), "5"): 1 for n in (*range(100, 700, 100), 6100, 6200, 6300, 6400)},
        ),
        (Design(sizes=4), {("0", "0"): 20}),
        (Design(sizes=4), {("-5", "7"): 20}),
        (Design(frequent=4), {(f"v{n}",): 9 for n in range(9)}),
    ],
)
def test_what_too_few_users_have_in_common_is_no_design(
    level: Design, held: dict[tuple[str, ...], int]
) -> None:
    with pytest.raises(InputError, match="cannot be designed"):
        path_of(level, held, policy(40))


def test_where_no_size_pays_a_path_begins_with_the_first_that_does() -> None:
    held = {("1000", "800"): 10, ("900", "700"): 3}
    found = path_of(Design(sizes=4), held, policy(40))
    assert 0 < len(found) < 24
    assert all(each.level.sizes for each in found)


def test_a_size_that_one_user_has_is_shown_by_no_design() -> None:
    """Many have its width, and many others its height; it is of nobody else."""
    held = {("1920", "1080"): 100, ("1366", "768"): 100, ("1024", "600"): 60, ("1920", "600"): 1}
    found = path_of(Design(sizes=20), held, policy(870))
    shown = {size for each in found for size in each.level.sizes}
    assert shown >= {(1920, 1080), (1366, 768), (1024, 600)}
    assert (1920, 600) not in shown
    held["1920", "600"] = 10
    found = path_of(Design(sizes=20), held, policy(870))
    assert (1920, 600) in found[-1].level.sizes


def test_one_huge_number_does_not_make_a_design_coarse() -> None:
    held = {str(n): 3 for n in range(1, 40)}
    found = designed(Design(buckets=8), held | {"1" + "0" * 20: 1}, policy(118))
    assert found[-1].level.edges == designed(Design(buckets=8), held, policy(118))[-1].level.edges
    assert len(found[-1].level.edges) > 2


def test_a_design_is_read_again_from_its_file_whatever_numbers_users_have() -> None:
    held = {str(2**53 - 1): 30, "5": 30, "0.00000000001": 30}
    pairs = {(number, number): users for number, users in held.items()}
    sized = path_of(Design(sizes=4), pairs, policy(90))
    for each in (*designed(Design(buckets=4), held, policy(90)), *sized):
        assert msgspec.convert(msgspec.to_builtins(each.level), LevelMap) == each.level


def test_lists_of_many_numbers_are_made_of_few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[int] = []
    fitting = designs._Fitting

    def counted(rows: Any, *more: Any) -> Any:
        listed.append(len(rows))
        return fitting(rows, *more)

    monkeypatch.setattr(designs, "_Fitting", counted)
    held = {(str(n), str(n % 17), str(n % 13)): 10 for n in range(1, 60)}
    path_of(Design(sizes=2), held, policy(590))
    assert listed[0] < 1500


def test_of_many_users_some_of_all_times_are_designed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, ({"memory": (1 if i < 300 else 8) << i % 2} for i in range(600)))
    (tmp_path / "memory.toml").write_text(
        "[[component]]\napis = ['memory']\nlevels = [{design = {buckets = 4}}]\n"
    )
    monkeypatch.setattr(designs, "_MOST_USERS", 100)
    answer = decided(tmp_path, "memory.toml")
    assert answer["components"][0]["levels"][0]["edges"] == [1, 2, 8, 16]


def test_users_who_do_not_fit_into_memory_are_not_divided(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fpmonitor.population.stored.has_room_for", lambda *_: False)
    assert run(asked(folder, "window.toml", "--design-share", "30%")) == 3
    assert "do not fit into memory" in capsys.readouterr().err


@pytest.mark.long
def test_frequent_values_are_wrong_of_their_own_users_and_right_of_others() -> None:
    """A thousand equal values of ten users each: designed and tested on the same users, a list of
    the frequent ones is above the budget nearly always; on others, within δ."""
    rng, users, kinds, runs = np.random.default_rng(7), 10_000, 1000, 40
    asked = policy(users)

    def above(share: float) -> bool:
        part = round(share * users)
        tested = rng.multinomial(users - part, np.full(kinds, 1 / kinds))
        seen = rng.multinomial(part, np.full(kinds, 1 / kinds)) if part else tested
        held = {f"v{at}": int(count) for at, count in enumerate(seen)}
        part_of = DesignPart(0.3, 300, 1, "values")
        begun = replace(Decision.begun(asked), components=(component("values", 1),), design=part_of)
        tests = deciding.judging(begun, users - part)
        listed = 0
        for each in designed(Design(frequent=kinds), held, asked):
            shown = [int(text[1:]) for text in each.level.top]
            rest = np.delete(tested, shown).sum()
            counts = np.append(tested[shown], rest)
            if not tests.allow.holds(CountSpectrum.from_counts(counts), 1):
                break
            listed = len(shown)
        law = np.append(np.full(listed, 1 / kinds), 1 - listed / kinds)
        exposure = law @ exposure_probability(np.clip(law, 0, 1), k=10, population=users)
        return bool(exposure > asked.budget)

    own, other = (sum(above(share) for _ in range(runs)) for share in (0.0, 0.5))
    assert own > 0.8 * runs
    assert other <= 0.05 * runs


def test_an_interrupt_ends_the_designs_that_follow_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alternatives = answers.alternatives
    monkeypatch.setattr(answers, "alternatives", lambda *given: [*alternatives(*given)] * 3)
    assert decided(folder, "window.toml")["design"]["tried"] == 3
    search, searched = deciding.search, []

    def interrupted(*given: Any, **options: Any) -> Any:
        searched.append(given)
        found = search(*given, **options)
        signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(deciding, "search", interrupted)
    answer = decided(folder, "window.toml")
    assert len(searched) == 1
    assert answer["design"]["tried"] == 1
    assert any(answer["recommended"])
