"""Level vectors whose values were declared are decided by exact limits, too."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from fpmonitor.cli import run
from fpmonitor.decide import declared
from fpmonitor.population.levels import Component, LevelMap
from fpmonitor.proof import declared as proof
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

USERS = 3000
TIERS = """
[[component]]
name = "cores"
apis = ["cores"]
levels = [{raw = true}, {edges = [2, 3, 4, 5, 6, 7]}, {edges = [4]}]
"""


def rows(*, failed: int = 0) -> list[dict[str, Any]]:
    """Seven tiers, six of 14 %: a score of so many users is not sure that none is below 10 %."""
    told = [(i // 420 + 1 if i < 2520 else 7, i) for i in range(USERS)]
    fails = {"status": "error", "value": "NotAllowedError"}
    return [
        {"api": "cores", **(fails if i < failed else {"value": tier + i % 2 / 4})}
        for tier, i in told
    ]


def decided(folder: Path, *more: str) -> tuple[Path, dict[str, Any]]:
    (folder / "tiers.toml").write_text(TIERS)
    made, db = folder / "decision.json", str(folder / "d.duckdb")
    question = ["--k", "200", "--population", "2000", "--budget", "1%", "--db", db, "-q"]
    start = ["decide", "--levels", str(folder / "tiers.toml"), *question]
    assert run([*start, *more, "-o", str(made)]) == 0
    content: dict[str, Any] = json.loads(made.read_text())
    return made, content


def audited(made: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, set[tuple[str, str]]]:
    capsys.readouterr()
    db = str(made.with_name("d.duckdb"))
    code = run(["audit", "certificate", str(made), "--db", db, "--format", "json"])
    lines = json.loads(capsys.readouterr().out)
    return code, {(each["claim"], each["answer"]) for each in lines}


def test_tiers_that_no_score_allows_are_allowed_and_proved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, rows())
    made, content = decided(tmp_path)
    assert content["allow"] == [{"cores": 2}]
    assert content["declared"] == {"cores": [1, 2]}
    side = content["proof"]["allow"]
    assert side["declared"] == {"delta": 0.05 / 4 / 2 / 2, "once": True, "vectors": 2}
    assert side["delta"] == content["proof"]["block"]["delta"] == 0.05 * 0.75
    code, claims = audited(made, capsys)
    assert code == 0
    assert ("proof of declared values", "proved") in claims
    db = str(tmp_path / "d.duckdb")
    assert run(["gate", str(made), "--exit-zero", "--want", "cores=1", "--db", db]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "allow"
    told = side["declared"]
    for change in (
        {"delta": told["delta"] * 2},
        {"vectors": 1},
        {"once": 1},
        None,
    ):
        other = {name: value for name, value in side.items() if name != "declared"}
        other |= {} if change is None else {"declared": told | change}
        changed = content | {"proof": content["proof"] | {"allow": other}}
        made.write_text(json.dumps(changed))
        code, claims = audited(made, capsys)
        assert code == 1, change
        assert ("proof of declared values", "not proved") in claims
        assert ("allow", "not proved") in claims
    later = content["policy"]["sample"] | {"look": "later"}
    made.write_text(json.dumps(content | {"policy": content["policy"] | {"sample": later}}))
    assert ("proof of declared values", "not proved") in audited(made, capsys)[1]


def test_scores_alone_do_not_allow_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "MOST_VALUES", 1)
    stored(tmp_path, rows())
    _, content = decided(tmp_path)
    assert content["allow"] == [{"cores": 1}]
    assert "declared" not in content
    assert content["proof"]["allow"]["delta"] == 0.05


def test_where_a_user_showed_what_was_not_declared_exact_limits_say_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There may be any number of other errors."""
    stored(tmp_path, rows(failed=2))
    made, content = decided(tmp_path)
    assert content["allow"] == [{"cores": 1}]
    assert content["declared"] == {"cores": []}
    lied = {"declared": {"cores": [1, 2]}, "allow": [{"cores": 2}], "recommended": {"cores": 2}}
    lists = {"undecided": [{"cores": 3}], "block": [], "utility": 2 / 3, "utility_bound": 2 / 3}
    made.write_text(json.dumps(content | lied | lists))
    code, claims = audited(made, capsys)
    assert code == 1
    assert ("declared", "not proved") in claims


MAPS: Mapping[str, tuple[LevelMap, tuple[str, ...]]] = {
    "edges": (LevelMap(edges=(1, 4)), ("0", "1", "3", "4", "9", "-7", "text", "")),
    "edges of whole numbers": (LevelMap(edges=(1,), step=2.0), ("0", "1", "2", "x")),
    "top": (LevelMap(top=("a", "b")), ("a", "b", "c", "other")),
    "top with other": (LevelMap(top=("a", "other")), ("a", "b", "other")),
    "raw": (LevelMap(raw=True), ("a",)),
    "regex": (LevelMap(edges=(1,), regex="."), ("1", "23")),
}


@pytest.mark.each
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("apis", [("a",), ("a", "b")])
def test_no_level_shows_more_values_than_are_counted(name: str, apis: tuple[str, ...]) -> None:
    level, texts = MAPS[name]
    levels = (LevelMap(raw=True), level)
    component = Component(name="c", apis=apis, levels=levels, utility=(0, 1, 2), least=0, most=2)
    counted = component.declared(1)
    as_json = {
        "levels": [{"raw": True}, json.loads(msgspec.json.encode(level))],
        "apis": list(apis),
    }
    assert counted == proof._values(as_json, 1)
    assert component.declared(2) is None
    if counted is None:
        assert name in {"raw", "regex"}
        return
    absent, undefined = 0, 1
    shown = {
        component.shown(1, values)
        for values in itertools.product((*texts, absent, undefined), repeat=len(apis))
    }
    assert len(shown) == counted


def test_sizes_are_counted_where_all_have_numbers() -> None:
    sizes = LevelMap(sizes=((800, 600), (400, 300)))
    component = Component(
        name="c", apis=("w", "h"), levels=(sizes,), utility=(0, 1), least=0, most=1
    )
    numbers = ("100", "400", "900", "x")
    shown = {component.shown(1, values) for values in itertools.product(numbers, repeat=2)}
    assert component.declared(1) == len(shown) == 3


def test_vectors_of_many_values_have_no_part_of_delta() -> None:
    def component(name: str, edges: int) -> Component:
        tiers = LevelMap(edges=tuple(map(float, range(edges))))
        return Component(name=name, apis=(name,), levels=(tiers,), utility=(0, 1), least=0, most=1)

    assert declared.tested_values([component("a", 6), component("b", 26)]) == (300, 3)
    assert declared.tested_values([component("a", 7), component("b", 26)]) == (30, 2)
    many = [component(f"c{i}", 1) for i in range(40)]
    assert declared.tested_values(many) == (5, 40)  # 780 pairs are too many
