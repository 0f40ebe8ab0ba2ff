"""Preprocessing options: volatile values, automation, value transforms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.output import note
from fpmonitor.disclosure import publishable_count
from fpmonitor.population.views import View, Volatile
from fpmonitor.store.transforms import read_transforms

if TYPE_CHECKING:
    from fpmonitor.population.population import Population


VOLATILE = Annotated[
    Volatile,
    typer.Option(
        "--volatile",
        help="Values that browsers randomise by design: replaced by one token per browser family,"
        " left out, or as logged.",
        rich_help_panel="Data",
    ),
]
DROP_AUTOMATION = Annotated[
    bool,
    typer.Option(
        "--drop-automation", help="Exclude users that look automated.", rich_help_panel="Data"
    ),
]
WHAT_IF = Annotated[
    Path | None,
    typer.Option(
        "--what-if",
        help="TOML file of value transforms (round, truncate, make constant): answer for "
        "transformed values.",
        metavar="FILE",
        rich_help_panel="Data",
    ),
]
SOURCE = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="Only observations made by this library, for example 'fingerprintjs 5.2.0'.",
        metavar="NAME",
        rich_help_panel="Data",
    ),
]


def view_of(
    volatile: Volatile = "shared",
    drop_automation: bool = False,
    what_if: Path | None = None,
) -> View:
    """View that the options ask for."""
    return View(
        volatile=volatile,
        drop_automation=drop_automation,
        transforms={} if what_if is None else read_transforms(what_if),
    )


def note_view(population: Population, k: int) -> None:
    """Note on stderr who was excluded, what was transformed, and which sources are mixed."""
    view = population.view
    if view.drop_automation:
        dropped = publishable_count(population.dropped, k, population.audience)
        number = f"fewer than {k}" if dropped is None else f"{dropped:,}"
        note(f"{number} users that look automated are excluded")
    if view.transforms:
        note(f"value transforms applied to: {', '.join(sorted(view.transforms))}")
    if view.volatile == "raw":
        note(
            "values that browsers randomise count as logged, although they identify nobody for long"
        )
    elif masked := population.masked(population.apis, k):
        note(f"masked, as browsers randomise them by design: {', '.join(masked)}")
    if population.snapshot.values_are_digested:
        note("values are stored as digests: browsers and randomised values are not recognised")
    mixed = population.mixed_sources(k)
    for api, sources in list(mixed.items())[:5]:
        note(f"{api}: values of {', '.join(sources)} are mixed; --source NAME selects one")
    if len(mixed) > 5:
        note(f"... and {len(mixed) - 5:,} more APIs with several sources")
