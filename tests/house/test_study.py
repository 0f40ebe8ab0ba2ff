"""The study of User-Agents shows the figures that are stored, and nothing of anybody's rows."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "useragents.json"


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        return runpy.run_path(str(ROOT / "benchmarks" / "useragent_study.py"))


def test_the_page_and_its_figure_are_made_from_the_stored_figures(study: dict[str, Any]) -> None:
    figures = json.loads(STORED.read_text())
    pages = study["written"](figures)
    assert {path.name for path in pages} == {"useragents.md", "useragents.svg"}
    for path, text in pages.items():
        assert path.read_text() == text, "run benchmarks/useragent_study.py --page"
    assert list(figures["releases"]) == study["RELEASES"]
    answers = [
        answer
        for release in figures["releases"].values()
        for sets in release.values()
        if isinstance(sets, dict)
        for answer in sets.values()
    ]
    assert figures["limits"] == 2 * len(answers)
    for answer in answers:
        assert answer["lower"] <= answer["estimate"] <= answer["upper"]
    assert "Mozilla" not in STORED.read_text()


def test_a_string_of_chrome_is_reduced_as_published(study: dict[str, Any]) -> None:
    rest = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome"
    device = "Linux; Android 9; SM-A205U Build/PPR1"
    sent = f"Mozilla/5.0 ({device}) {rest}/93.0.1234.56 Mobile Safari/537.36"
    parts = study["parts_of"](sent)
    assert parts["reduced"] == (
        f"Mozilla/5.0 (Linux; Android 10; K) {rest}/93.0.0.0 Mobile Safari/537.36"
    )
    assert (parts["model"], parts["system"], parts["system_major"]) == ("SM-A205U", "9", "9")
    windows = f"Mozilla/5.0 (Windows NT 6.1; WOW64) {rest}/114.0.0.0 Safari/537.36"
    parts = study["parts_of"](windows)
    assert parts["reduced"] == windows.replace("6.1; WOW64", "10.0; Win64; x64")
    assert (parts["system"], parts["system_major"]) == ("6.1", "0")
    assert study["parts_of"](windows.replace(" Safari", " Safari OPR"))["reduced"] is None
