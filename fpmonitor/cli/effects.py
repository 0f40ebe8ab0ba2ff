"""Commands on the effect of a list: preview, plan, import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fpmonitor.answers.preview import preview_sets
from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.deployed import list_text
from fpmonitor.cli.lists import (
    ALLOW_BREAKAGE,
    BY_INFORMATION,
    REPLACE_PROTECTION,
    SITE,
    TARGETS,
)
from fpmonitor.cli.options import DECISION, QUIET
from fpmonitor.cli.output import Shown, emit, note
from fpmonitor.cli.users import StoredUsers
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.decision import Decision
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError
from fpmonitor.export.controls import Control, Product, effect_of
from fpmonitor.export.effect import left_readable, left_unchanged
from fpmonitor.export.enforce import ControlExporter
from fpmonitor.export.exporter import ExportOptions, ParsedList
from fpmonitor.export.plan import cheapest_plan, plan_of
from fpmonitor.monitor import Monitor
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names
from fpmonitor.render import decisions

EXIT_VIOLATED = 1
EXIT_UNDECIDED = 3
TO = Annotated[
    str, typer.Option("--to", help="Format of the list, such as ublock or firefox-policies.")
]


def preview(
    *,
    decision: DECISION,
    to: TO,
    site: SITE = None,
    table: TARGETS = "153",
    by_information: BY_INFORMATION = False,
    replace_protection: REPLACE_PROTECTION = False,
    allow_breakage: ALLOW_BREAKAGE = False,
    users: StoredUsers,
    shown: Shown,
) -> None:
    """Estimate the exposure before and after a list, and with all that its format can do."""
    decided, exporter = read_credible_decision(decision, read_decision), _product(to)
    options = ExportOptions(
        site=site,
        targets=table,
        by_information=by_information,
        replace_protection=replace_protection,
        allow_breakage=allow_breakage,
    )
    chosen = exporter.export(decided, options).controls
    states = _states(decided, exporter, options, chosen)
    with users.open() as monitor:
        rows = _exposures(monitor, decided, states)
    shown.show(decisions.preview_output(rows))


def plan(
    *,
    decision: DECISION,
    to: TO,
    site: SITE = None,
    table: TARGETS = "153",
    write: Annotated[
        Path | None, typer.Option(help="Also write the list of the plan to this file.")
    ] = None,
    shown: Shown,
    quiet: QUIET = False,
) -> int:
    """Find the fewest controls of a format that leave only an allowed set readable."""
    decided, exporter = read_credible_decision(decision, read_decision), _product(to)
    options = ExportOptions(site=site, targets=table)
    controls = exporter.controls(options)
    found = cheapest_plan(decided, controls, exporter.product)
    best = found or plan_of(decided, controls, exporter.product)
    if found is not None and write is not None:
        emit(exporter.export_plan(decided, found.controls, options).text, write)
    shown.show(decisions.plan_output(best))
    if found is None:
        note(f"{to}: no plan; with every control the verdict is {best.verdict}", quiet=quiet)
        return EXIT_VIOLATED if best.verdict == "block" else EXIT_UNDECIDED
    return 0


def import_list(
    *,
    source: Annotated[Path, typer.Argument(help="List that is in use.", metavar="LIST")],
    product: Annotated[str, typer.Option("--from", help="Format of the list, such as ublock.")],
    decision: Annotated[
        Path | None,
        typer.Option(help="Judge by this decision what stays readable.", metavar="DECISION.json"),
    ] = None,
    site: SITE = None,
    db: Annotated[
        Path | None, typer.Option(help="Database to estimate the exposure with.", metavar="PATH")
    ] = None,
    shown: Shown,
    quiet: QUIET = False,
) -> None:
    """Read a list that is already in use, and show what it leaves exposed."""
    if db is not None and decision is None:
        raise InputError(
            "lists import: --db needs --decision",
            hint="name the decision whose candidates are measured",
        )
    exporter = _product(product)
    ExportOptions(site=site)  # refuses what is not a domain name: no exception would be of it
    reading = exporter.read(list_text(source), site)
    for problem in reading.problems:
        note(f"problem: {problem}", quiet=quiet)
    document = _effects(reading, exporter.product)
    if decision is not None:
        document |= _judged(
            read_credible_decision(decision, read_decision), exporter, reading, site, db
        )
    shown.show(decisions.imported(document))


def _product(name: str) -> ControlExporter:
    exporter = load_plugin(EXPORTERS, name)
    if not isinstance(exporter, ControlExporter):
        known = [
            other
            for other in plugin_names(EXPORTERS)
            if isinstance(load_plugin(EXPORTERS, other), ControlExporter)
        ]
        raise InputError(f"{name} does not control a product", hint=f"formats: {', '.join(known)}")
    return exporter


def _states(
    decision: Decision, exporter: ControlExporter, options: ExportOptions, chosen: Sequence[Control]
) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
    """Return what is left of the candidates before, after, and with every control of the format.

    At most, and at least.
    """
    candidates, means = decision.policy.candidates, decision.means
    states: dict[str, tuple[Sequence[str], Sequence[str]]] = {"before": (candidates, candidates)}
    for state, controls in (("after", chosen), ("best", exporter.controls(options))):
        states[state] = (
            left_readable(candidates, controls, exporter.product, means),
            left_unchanged(candidates, controls, exporter.product, means),
        )
    return states


def _exposures(
    monitor: Monitor,
    decision: Decision,
    states: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> list[dict[str, Any]]:
    sets = {tuple(left): None for most, least in states.values() for left in (most, least)}
    reports = preview_sets(monitor.population_as(decision), decision, sets)
    of_set = dict(zip(sets, reports, strict=True))
    return [
        {
            "state": state,
            "verdict": decision.verdict(most)[0],
            "left": list(most),
            "empirical": of_set[tuple(most)].empirical,
            "plug_in": of_set[tuple(most)].plug_in,
            "unbiased": of_set[tuple(most)].unbiased,
            # What stays readable is between the two sets, and exposure grows with the set.
            "lower": of_set[tuple(least)].lower,
            "upper": of_set[tuple(most)].upper,
            "masked": list(of_set[tuple(most)].masked),
        }
        for state, (most, least) in states.items()
    ]


def _effects(reading: ParsedList, product: Product) -> dict[str, Any]:
    known = {api for control in reading.controls for api in control.effects}
    return {
        "controls": [control.name for control in reading.controls],
        "problems": list(reading.problems),
        "apis": [
            {"api": api, "effect": effect_of(api, reading.controls, product)}
            for api in sorted(known)
        ],
    }


def _judged(
    decision: Decision,
    exporter: ControlExporter,
    reading: ParsedList,
    site: str | None,
    db: Path | None,
) -> dict[str, Any]:
    left = left_readable(
        decision.policy.candidates, reading.controls, exporter.product, decision.means
    )
    verdict, because = decision.verdict(left)
    judged: dict[str, Any] = {"left": list(left), "verdict": verdict, "because": list(because)}
    if db is not None:
        options = ExportOptions(site=site if exporter.sites else None)
        with open_monitor(db) as monitor:
            states = _states(decision, exporter, options, reading.controls)
            judged["exposure"] = _exposures(monitor, decision, states)
    return judged
