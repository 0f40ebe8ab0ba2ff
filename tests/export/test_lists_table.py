"""What docs/exports.md says of each list is what each list does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from fpmonitor.cli import run

SCRIPT = Path(__file__).parents[2] / "scripts" / "lists.py"
_SPEC = importlib.util.spec_from_file_location("lists_script", SCRIPT)
assert _SPEC
assert _SPEC.loader
script = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(script)


def test_the_table_of_the_page_is_of_the_evidence_and_the_lists_of_now(tmp_path: Path) -> None:
    """Run `python scripts/lists.py` where this fails: a list, or what was found, has changed."""
    folder = tmp_path / "quickstart"
    assert run(["quickstart", str(folder), "--quiet"]) == 0
    made = script.table(folder)
    assert script.page_with(made) == script.PAGE.read_text(encoding="utf-8")
    [near] = [
        row for row in made.splitlines() if row.startswith("| – APIs in the page's own world")
    ]
    assert "| 9 of 9 |" in near
    assert float(near.partition(" to ")[2].partition(" %")[0]) <= 5, "the budget of the quickstart"
    rows = [row for row in made.splitlines()[4:] if row.startswith("| `")]
    assert {row.split("`")[1] for row in rows} >= {"ublock", "webextension", "firefox-userjs"}
