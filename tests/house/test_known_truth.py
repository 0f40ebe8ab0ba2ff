"""Known truth: the page shows the stored figures, and methods are judged by laws that are known."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "known-truth.md"
METHOD = re.compile(r"```python\n(NAME.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def known_truth() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        return runpy.run_path(str(ROOT / "benchmarks" / "known_truth.py"))


@pytest.fixture(scope="module")
def methods(known_truth: dict[str, Any]) -> list[ModuleType]:
    """All that need no package from elsewhere."""
    found: list[ModuleType] = known_truth["read_methods"]()
    return [method for method in found if method.NAME != "Pitman-Yor"]


def test_the_page_and_its_figures_are_made_from_the_stored_figures(
    known_truth: dict[str, Any],
) -> None:
    pages = known_truth["written"](json.loads(PAGE.with_suffix(".json").read_text()))
    assert {path.name for path in pages} == {
        "known-truth.md",
        "known-truth-names.svg",
        "known-truth-places.svg",
    }
    for path, text in pages.items():
        assert path.read_text() == text, "run benchmarks/known_truth.py --page"


def test_stored_limits_missed_as_rarely_as_promised() -> None:
    figures = json.loads(PAGE.with_suffix(".json").read_text())
    made = figures["made"]
    assert made["laws"] >= 500
    assert len(figures["tables"]) == 5
    for part in (figures["persons"], *figures["tables"].values(), made):
        for scores in (part.get("scores"), *(part.get(times) for times in ("1", "10", "100"))):
            if scores is not None:
                ours = scores["fpmonitor"]
                missed = ours["misses_above"] + ours["misses_below"]
                assert missed <= 2 * figures["delta"] * ours["asked"]
                assert ours["answered"] == ours["asked"]


def test_made_laws_judge_all_methods(
    known_truth: dict[str, Any], methods: list[ModuleType], tmp_path: Path
) -> None:
    found = known_truth["run_made"](methods, tmp_path, 10)
    at_10 = found["10"]
    assert set(at_10) == {method.NAME for method in methods}
    for times in ("1", "10", "100"):
        ours = found[times]["fpmonitor"]
        assert ours["asked"] == 10
        assert ours["misses_above"] + ours["misses_below"] == 0
        assert not any(each["wrong_allows"] for each in ours["budgets"].values())
    wrong = sum(each["wrong_allows"] for each in at_10["plug-in"]["budgets"].values())
    assert wrong > 0


def test_a_made_population_of_persons_is_counted(
    known_truth: dict[str, Any], methods: list[ModuleType], tmp_path: Path
) -> None:
    """Two attributes that depend on each other, as names and years do."""
    rng = np.random.default_rng(1)
    codes = np.stack([rng.zipf(1.4, 20_000) % 500, rng.integers(0, 50, 20_000)], axis=1)
    values, counts = np.unique(codes, axis=0, return_counts=True)
    persons = counts * 1_000
    law = known_truth["Law"](
        table="persons",
        name="name, year",
        probabilities=persons / persons.sum(),
        codes=values,
        persons=persons,
    )
    found = known_truth["run_persons"]([law], methods, tmp_path, {2_000: 2})
    everybody = [line for line in found["lines"] if line["population"] == 325_361_484]
    assert [line["persons"] for line in everybody] == [0.0]
    for line in found["lines"]:
        lower, _, upper = line["said"]["fpmonitor"]
        assert lower <= line["truth"] <= upper
        assert line["said"]["copula average"][1] is not None
    assert found["scores"]["Good-Turing"]["misses_above"] == 0


def test_a_reader_adds_a_method_in_one_file(known_truth: dict[str, Any], tmp_path: Path) -> None:
    """The one of the page."""
    [text] = METHOD.findall(PAGE.read_text())
    path = tmp_path / "mine.py"
    path.write_text(text)
    mine = known_truth["read_methods"]([path])[-1]
    assert mine.NAME == "half of the plug-in"
    scored = known_truth["run_made"]([mine], tmp_path, 5)["1"]
    assert scored[mine.NAME]["answered"] == 5
    assert not scored[mine.NAME]["promises"]


def test_the_copula_of_one_attribute_is_the_plug_in(
    known_truth: dict[str, Any], methods: list[ModuleType], tmp_path: Path
) -> None:
    by_name = {method.NAME: method for method in methods}
    [law] = known_truth["made_laws"](1, np.random.default_rng(2))
    counts, codes = law.draw(5_000, np.random.default_rng(3))
    sample = known_truth["Sample"](
        counts=counts, codes=codes, k=400, population=5_000, delta=0.05, cache=tmp_path, law=law
    )
    plug_in = by_name["plug-in"].answer(sample)[1]
    assert by_name["copula average"].answer(sample)[1] == pytest.approx(plug_in, abs=0.05)
