"""Options on how questions look at the users: volatile values, automation, coarser values."""

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
        help="Values that browsers randomise: one shared token, left out, or as they were logged.",
    ),
]
DROP_AUTOMATION = Annotated[
    bool, typer.Option("--drop-automation", help="Leave out users that look automated.")
]
WHAT_IF = Annotated[
    Path | None,
    typer.Option("--what-if", help="TOML file: what APIs return instead.", metavar="FILE"),
]
SOURCE = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="Only observations of this source, for example 'fingerprintjs 5.2.0'.",
        metavar="NAME",
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
    """Say on stderr who was left out, what was changed, and which values are pooled."""
    view = population.view
    if view.drop_automation:
        dropped = publishable_count(population.dropped, k, population.audience)
        number = f"fewer than {k}" if dropped is None else f"{dropped:,}"
        note(f"{number} users that look automated are left out")
    if view.transforms:
        note(f"values changed before the question: {', '.join(sorted(view.transforms))}")
    if view.volatile == "raw":
        note("values that browsers randomise count as they were logged: they name nobody for long")
    if population.snapshot.values_are_digested:
        note("values are kept as digests: browsers, and what they randomise, are not recognised")
    mixed = population.mixed_sources(k)
    for api, sources in list(mixed.items())[:5]:
        note(f"{api}: values of {', '.join(sources)} are read together; --source NAME takes one")
    if len(mixed) > 5:
        note(f"... and {len(mixed) - 5:,} more APIs with several sources")
