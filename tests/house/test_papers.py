"""The reference numbers of the papers are those that their script computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_reference_numbers_are_what_their_script_computes() -> None:
    spec = importlib.util.spec_from_file_location("make_reference", FIXTURES / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert (FIXTURES / "reference" / "papers.json").read_text(encoding="utf-8") == made.papers()
