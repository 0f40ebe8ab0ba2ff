"""Commands that write lists for products: export, targets."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.options import DECISION, OUTPUT, QUIET, named_options
from fpmonitor.cli.output import Shown, emit, note
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.decision import Decision
from fpmonitor.errors import InputError, some_of
from fpmonitor.export.coverage import coverage, product_exporters
from fpmonitor.export.exporter import (
    ApiVerdict,
    Exporter,
    ExportOptions,
    ExportResult,
)
from fpmonitor.export.firefox_targets import installed_targets
from fpmonitor.export.headline import scope_of
from fpmonitor.export.level_lists import level_list
from fpmonitor.export.lists import api_actions
from fpmonitor.plugins import EXPORTERS, exporter_name, load_plugin, plugin_names
from fpmonitor.render import decisions
from fpmonitor.render.output import to_json
from fpmonitor.safe_files import untyped, write_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.decide.decision import Decision

EXIT_VIOLATED = 1
_SHOWN_NAMES = 5
_OF_LEVELS = frozenset(("--format", "--output", "--quiet", "--to"))  # the others say nothing there
SITE = Annotated[
    str | None,
    typer.Option("--site", help="Restrict the list to this site, for example example.com."),
]
REPLACE_PROTECTION = Annotated[
    bool,
    typer.Option(
        "--replace-protection",
        help="Let the list lower the product's own protection, for what sites may read.",
    ),
]
ALLOW_BREAKAGE = Annotated[
    bool,
    typer.Option(
        "--allow-breakage",
        help="Also use controls that stop more ordinary pages than they withhold APIs.",
    ),
]
BY_INFORMATION = Annotated[
    bool,
    typer.Option(
        "--by-information",
        help="Also withhold APIs that were not candidates but reveal what a withheld one does.",
    ),
]
TARGETS = Annotated[
    str,
    typer.Option(
        "--targets",
        help="For Firefox: a major version, or a file written by `fpmonitor lists targets`.",
    ),
]


FORMAT_NAME = Annotated[
    str | None, typer.Argument(help="Format of the list, as of --to.", metavar="FORMAT")
]
TO = Annotated[str, typer.Option("--to", help="Format of the list, such as json, csv or ublock.")]
VARIANT = Annotated[str, typer.Option("--variant", help="Variant of the format, such as nginx.")]
REPORT_TO = Annotated[
    str,
    typer.Option(
        "--report-to", help="Address that reports go to (https), for --variant report-only."
    ),
]
VALUES = Annotated[
    Path | None,
    typer.Option(
        "--values",
        help="Database: withheld APIs answer with the commonest value that k users share.",
        metavar="DB",
    ),
]
STRICT = Annotated[
    bool,
    typer.Option(
        "--strict", help="If a withheld API cannot be hidden, write nothing and exit with 1."
    ),
]
PARTIAL = Annotated[
    bool,
    typer.Option("--partial", help="Exit with 0 also where not all that is withheld is hidden."),
]
DB = Annotated[
    Path | None,
    typer.Option(
        "--db",
        help="Database to estimate the exposure of what stays readable with.",
        metavar="PATH",
    ),
]
VERDICTS = Annotated[
    Path | None,
    typer.Option("--verdicts", help="Also write how well each API is enforced, as JSON."),
]
COVERAGE = Annotated[bool, typer.Option("--coverage", help="Compare what each format can enforce.")]


def export(
    context: typer.Context,
    *,
    decision: DECISION,
    name: FORMAT_NAME = None,
    to: TO = "",
    site: SITE = None,
    variant: VARIANT = "",
    table: TARGETS = "153",
    report_to: REPORT_TO = "",
    by_information: BY_INFORMATION = False,
    values: VALUES = None,
    strict: STRICT = False,
    partial: PARTIAL = False,
    replace_protection: REPLACE_PROTECTION = False,
    allow_breakage: ALLOW_BREAKAGE = False,
    db: DB = None,
    verdicts: VERDICTS = None,
    show_coverage: COVERAGE = False,
    shown: Shown,
    quiet: QUIET = False,
) -> int:
    """Write a decision as an allow/block list for a product.

    Exit codes: 0 if the list hides all that it withholds, else 1.
    """
    if name is not None and to:
        raise InputError(f"export: two formats, {name} and --to {to}", hint="name one of them")
    to = exporter_name(to or name or "")
    decided = read_credible_decision(decision)
    if decided.components:
        return _write_levels(context, decided, to, shown.output)
    if show_coverage:
        found = coverage(decided, product_exporters())
        shown.show(decisions.coverage_output(found))
        return 0
    if not to:
        raise InputError(
            "export: no format given", hint=f"--to {', '.join(plugin_names(EXPORTERS))}"
        )
    options = ExportOptions(
        site=site,
        variant=variant,
        targets=table,
        by_information=by_information,
        report_to=report_to,
        replace_protection=replace_protection,
        allow_breakage=allow_breakage,
        values=_shared_values(values, decided),
    )
    exporter: Exporter = load_plugin(EXPORTERS, to)
    with _asked(db, decided, quiet=quiet) as measuring:
        result = exporter.export(decided, replace(options, **measuring))
    _check_names(result)
    note(_verdict_text(to, result, scope_of(decided)), quiet=quiet)
    if verdicts is not None:
        emit(to_json(untyped(result.verdicts)), verdicts)
    whole = result.headline is None or result.headline.is_whole
    if whole or not strict:
        _write(result, shown.output)
    return 0 if whole or (partial and not strict) else EXIT_VIOLATED


def _write_levels(context: typer.Context, decided: Decision, to: str, output: Path | None) -> int:
    """Write a decision about levels; options that say nothing of it are refused."""
    said = [option for option in named_options(context) if option not in _OF_LEVELS]
    emit(level_list(decided, to, said), output)
    return 0


def _write(result: ExportResult, output: Path | None) -> None:
    """Write a list, of several files to a folder."""
    # A file that is called JSON gets all of them as one document.
    if result.files and output is not None and output.suffix != ".json":
        write_folder(output, result.files)
    else:
        emit(result.text, output)


@contextmanager
def _asked(db: Path | None, decided: Decision, *, quiet: bool) -> Iterator[dict[str, Any]]:
    """Open what tells of users, such as limits; tell of other decisions on them."""
    if db is None:
        yield {}
        return
    from fpmonitor.answers.crowds import shared_crowds  # noqa: PLC0415 -- slow
    from fpmonitor.answers.preview import limits_of_left  # noqa: PLC0415
    from fpmonitor.cli.users import check_borne_out, note_beside  # noqa: PLC0415

    with open_monitor(db) as monitor:
        note_beside(monitor, decided, quiet=quiet)
        users = monitor.population_as(decided)
        if not check_borne_out(monitor, users, decided):
            note("not the users that were decided on: its verdicts are not checked", quiet=quiet)
        # The database stays open while the list is written: what it leaves is measured then.
        yield {
            "measure": limits_of_left(users, decided),
            "crowds": partial(shared_crowds, users, decided),
        }


def _shared_values(database: Path | None, decision: Decision) -> dict[str, str]:
    """Commonest values of what is withheld, by what products call it."""
    if database is None:
        return {}
    from fpmonitor.answers.shared_values import shared_values  # noqa: PLC0415 -- slow

    withheld = [entry for entry in api_actions(decision) if entry.is_withheld]
    with open_monitor(database) as monitor:
        population = monitor.population_as(decision)
        names = {entry.api: entry.means for entry in withheld}
        found = shared_values(population, names, decision.policy.k, means=decision.means)
    return {names[api]: value for api, value in found.items()}


def _check_names(result: ExportResult) -> None:
    """Refuse a list that would do nothing because nobody knows what the blocked names are."""
    blocked = [verdict for verdict in result.verdicts if verdict.is_withheld]
    unknown = [verdict for verdict in blocked if verdict.verdict == "unknown"]
    if unknown and len(unknown) == len(blocked):
        listed = [f"{verdict.api} ({verdict.note})" for verdict in unknown]
        raise InputError(
            "export: the list would hide nothing: "
            + some_of(listed, _SHOWN_NAMES, between="; ", last="; and"),
            hint="say what they are with `fpmonitor db apis --set NAME=API`, and decide again",
        )


def _verdict_text(to: str, result: ExportResult, scope: str) -> str:
    withheld = [verdict for verdict in result.verdicts if verdict.is_withheld]
    if result.headline is None:
        lines = [f"{to}: {len(withheld):,} APIs to withhold, by the reader of the list", scope]
    else:
        counts = Counter(verdict.verdict for verdict in withheld)
        found = ", ".join(f"{number} {word}" for word, number in counts.items())
        first, *near = result.headline.texts
        lines = [f"{to}: {first}", *near, f"withheld: {found or 'none'}"]
        lines += [result.headline.scope]
        lines += [_verdict_line(one) for one in result.verdicts if one.verdict != "exact"]
    return "\n".join([*lines, *(f"note: {text}" for text in result.notes)])


def _verdict_line(verdict: ApiVerdict) -> str:
    collateral = f"; also changes {', '.join(verdict.collateral)}" if verdict.collateral else ""
    why = f" ({verdict.note})" if verdict.note else ""
    name = f"{verdict.api} ({verdict.means})" if verdict.means else verdict.api
    breaks = f"; stops {', '.join(verdict.breaks)}" if verdict.breaks else ""
    near = "; hidden in what APIs answer to the page's own scripts, frames and workers"
    near = near if verdict.within_reach else ""
    return f"  {verdict.outcome}: {name}, {verdict.verdict}{why}{near}{collateral}{breaks}"


def targets(
    source: Annotated[
        Path, typer.Option("--from", help="Folder of an installed Firefox, or its omni.ja.")
    ] = Path("/usr/lib/firefox"),
    output: OUTPUT = None,
) -> None:
    """List the fingerprinting targets of an installed Firefox, for `export --targets`."""
    emit(to_json(untyped(installed_targets(source))), output)
