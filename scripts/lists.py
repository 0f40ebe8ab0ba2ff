"""Write the table of docs/exports.md: what each list leaves of the quickstart's decision.

    python scripts/lists.py           # writes the table
    python scripts/lists.py FOLDER    # of the quickstart's files in a folder

A list is written as `export --partial --db` does, the web extension as with `--values`. Run it
where `fpmonitor/export/evidence.json` or a list has changed; a test compares.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from fpmonitor.answers.preview import limits_of_left
from fpmonitor.answers.shared_values import shared_values
from fpmonitor.decide.files import read_decision
from fpmonitor.export import evidence
from fpmonitor.export.enforce import ControlExporter
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.headline import between_shares
from fpmonitor.export.lists import api_actions
from fpmonitor.monitor import Monitor
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision

PAGE = Path(__file__).parents[1] / "docs" / "exports.md"
FILE = Path(evidence.__file__).with_name("evidence.json")
HEAD = (
    "`--to`", "hidden", "by-passable", "still readable", "untried", "over-blocking", "exposure",
    "pages that stop",
)  # fmt: skip
BEGIN, END = "<!-- made by scripts/lists.py -->", "<!-- end -->"


def table(folder: Path) -> str:
    """Return the table as Markdown, from the database and the decision of a quickstart."""
    decision = read_decision(folder / "decision.json")
    with Monitor(folder / "fpmonitor.duckdb") as monitor:
        population = monitor.population_as(decision)
        measure = limits_of_left(population, decision)
        withheld = {one.api: one.means for one in api_actions(decision) if one.is_withheld}
        found = shared_values(population, withheld, decision.policy.k, means=decision.means)
        values = {withheld[api]: value for api, value in found.items()}
        every = tuple(decision.policy.candidates)
        first = (
            f"What each list leaves of the quickstart's decision, which withholds {len(withheld)} "
            f"APIs within a budget of {100 * decision.policy.budget:g} %. Without a list, a site "
            f"reads sets that expose {between_shares(measure(every, every))} % of the users."
        )
        lines = [first, "", f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
        beside: list[str] = []
        for name in plugin_names(EXPORTERS):
            exporter = load_plugin(EXPORTERS, name)
            if isinstance(exporter, ControlExporter):
                given = values if name == "webextension" else {}
                options = ExportOptions(measure=measure, values=given)
                rows, more = _rows(name, exporter, decision, options)
                lines += rows
                beside += more
    return "\n".join([*lines, "", *beside, *map(_laboratory, ("Chromium", "Firefox"))])


def _laboratory(browser: str) -> str:
    """Say what was measured in a browser, and how long that took where all of it is known."""
    found = json.loads(FILE.read_text(encoding="utf-8"))["browsers"][browser]
    secrets = found["secrets"].values()
    tried = {secret["tried"] for secret in secrets}
    ways = " to ".join(f"{number:,}" for number in sorted({min(tried), max(tried)}))
    seconds = [secret["seconds"] for secret in secrets if "seconds" in secret]
    whole = f", {sum(seconds) / 60:.0f} minutes" * (len(seconds) == len(secrets))
    return f"{browser} {found['version']}: {len(secrets)} secrets, {ways} ways to read each{whole}."


def _rows(
    name: str, exporter: ControlExporter, decision: Decision, options: ExportOptions
) -> tuple[list[str], list[str]]:
    """Return the row of a list, one of what its product can reach, and what lies beyond."""
    result = exporter.export(decision, options)
    headline = result.headline
    assert headline is not None
    assert headline.limits is not None
    counts = Counter(one.verdict for one in result.verdicts if one.is_withheld)
    readable = counts["impossible"] + counts["header-only"] + counts["unknown"]
    over = sum(one.verdict == "over-blocking" for one in result.verdicts)
    found = exporter.product.evidence
    stopped = found.breaks(one.name for one in result.controls) if found else ()
    pages = sorted({page for one in result.verdicts for page in one.breaks}.union(stopped))
    cells = [
        f"`{name}`",
        f"{headline.hidden} of {headline.withheld}",
        counts["by-passable"],
        readable,
        counts["untried"],
        over,
        f"{between_shares(headline.limits)} %",
        ", ".join(pages) or "–",
    ]
    rows, beside = [cells], []
    if headline.near is not None and headline.near.limits is not None:
        near = headline.near
        shown = ["– APIs in the page's own world", f"{near.hidden} of {near.withheld}"]
        rows.append([*shown, "", "", "", "", f"{between_shares(near.limits)} %", ""])
        told = ", ".join(f"`{api}`" for api in headline.laid_out)
        beside.append(
            "*APIs in the page's own world* are what a page's scripts, frames and workers are "
            f"answered, `{name}` alone, but for what its README names as beyond reach. "
            f"Layout and drawing, which are not covered, still reveal {told}."
        )
    return [f"| {' | '.join(map(str, row))} |" for row in rows], beside


def page_with(made: str) -> str:
    """Return the page with a table in place of the one that it has."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n\n{END}{after}"


def main() -> None:
    """Run the quickstart unless its folder is named, and write the table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1]) if sys.argv[1:] else Path(scratch) / "quickstart"
        if not sys.argv[1:]:
            command = [sys.executable, "-m", "fpmonitor", "quickstart", str(folder), "--quiet"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        PAGE.write_text(page_with(table(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
