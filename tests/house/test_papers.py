"""Every statement of the source papers has a public name, and its reference numbers a script."""

from __future__ import annotations

import importlib
import importlib.util
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from fpmonitor.cli import command_tree

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
# Items that were once no part of the package, or answered by nothing.
ITEMS = {
    *("Theorem 5, sample size", "section 2.2, sensitive attributes", "active attacker"),
    *("several releases", "sampling before the histogram", "Corollary 3.2, high"),
    *("Claims 3.1, 3.3, Lemma 3.4", "Theorem 4.6", "Theorem 4.9", "Claim 5.6", "Lemma 6.3"),
    *("amplification, Corollary B.2, Lemma B.1", "section 6.2, bit suppression"),
    *("section 6.2, interval buckets", "average min-entropy", "Definition 6.3, k_max"),
    "Definition 2.2, Lemma 2.2, Corollary C.1",
    "Proposition 4.2, Corollary 4.3, Theorem 4.4, Lemma 4.1, Proposition 4.5",
    *("Remark 4.4, any prior", "Propositions D.10, D.13", "Theorem 8.1"),
    *("Theorem 8.1, any prior", "section 11, at ε", "section 11, at S_mu"),
    *("section 11, U_distr at n, ε", "section 11, U_distr at n, S_mu", "U_tally, any matrix"),
}


PAPERS: list[dict[str, Any]] = tomllib.loads(
    (ROOT / "scripts" / "papers.toml").read_text(encoding="utf-8")
)["paper"]
ROWS: list[dict[str, str]] = [item for paper in PAPERS for item in paper["items"]]


def test_every_item_has_a_row() -> None:
    items = [row["item"] for row in ROWS]
    assert set(items) >= ITEMS
    assert len(items) == len(set(items)) + 1, "two papers have a Theorem 5"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["function"])
def test_the_name_that_answers_an_item_is_public(row: dict[str, str]) -> None:
    module, _, attribute = row["function"].rpartition(".")
    found = getattr(importlib.import_module(f"fpmonitor.{module}"), attribute)
    assert not attribute.startswith("_")
    assert found.__doc__
    if not row["command"]:
        return
    words = row["command"].split()
    below = command_tree().commands[words.pop(0)].load()  # type: ignore[attr-defined]
    while isinstance(below, TyperGroup):
        below = below.commands[words.pop(0)]
    if words:
        assert words[0] in {option for parameter in below.params for option in parameter.opts}


@pytest.mark.long
def test_reference_numbers_are_what_their_script_computes() -> None:
    spec = importlib.util.spec_from_file_location("make_reference", FIXTURES / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert (FIXTURES / "reference" / "papers.json").read_text(encoding="utf-8") == made.papers()


def test_no_paper_is_without_an_item() -> None:
    names = [paper["name"] for paper in PAPERS]
    assert names == ["Statistical anonymity", "Partial knowledge", "Singling out", "LDP metrics"]
    assert all(paper["items"] for paper in PAPERS)
