"""Tiers of the web's coarse APIs: the page shows the stored figures, and what is proven holds."""

from __future__ import annotations

import json
import runpy
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tiers.md"


@pytest.fixture(scope="module")
def tiers() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        return runpy.run_path(str(ROOT / "benchmarks" / "tiers.py"))


def test_the_page_is_made_from_the_stored_figures(tiers: dict[str, Any]) -> None:
    figures = json.loads(PAGE.with_suffix(".json").read_text())
    for path, text in tiers["written"](figures).items():
        assert path.read_text() == text, "run benchmarks/tiers.py --page"
    for apis in figures.values():
        for found in apis.values():
            if found["passed"] is not None:
                assert min(found["passed"]["lower"]) >= 0.1
                assert sum(found["passed"]["counts"]) == found["rows"]


def test_designs_make_the_smallest_tier_as_large_as_it_can_be(tiers: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    values = [*rng.integers(0, 9, 300).tolist(), *[None] * 40]
    order = sorted({*values} - {None})
    for starts in tiers["designs"](values):
        tiers_of = [[order[0], *cuts] for cuts in combinations(order[1:], len(starts) - 1)]
        most = max(min(tiers["tier_counts"](values, each, order)) for each in tiers_of)
        assert min(tiers["tier_counts"](values, starts, order)) == most


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_proven_tiers_hold_their_share(tiers: dict[str, Any], kind: str) -> None:
    """Of a law on the border: one value of three has 9.9 %, so three tiers are never proven."""
    names = [1, 2, 3] if kind == "numbers" else ["a", "b", "c"]
    proven = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        values = rng.choice(names, 3_000, p=[0.5, 0.401, 0.099]).tolist()
        found = tiers["certify"](values, rng)
        proven += found["passed"] is not None and len(found["passed"]["starts"]) == 3
        assert found["passed"] is None or len(found["passed"]["starts"]) >= 2
    assert proven <= 3


def test_texts_that_no_design_saw_are_in_the_last_tier(tiers: dict[str, Any]) -> None:
    counts = tiers["tier_counts"](["a", "b", "c", "new", None], ["a", "c"], ["a", "b", "c"])
    assert counts.tolist() == [3, 2]
