"""Preprocessing options: volatile values, automation, value transforms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.output import note
from fpmonitor.decide.guarantee import scarce
from fpmonitor.disclosure import publishable_count
from fpmonitor.population.views import View, Volatile
from fpmonitor.render.numbers import percent
from fpmonitor.store.transforms import read_transforms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.population.population import Population
    from fpmonitor.question import Missing

_NOTED = 5


VOLATILE = Annotated[
    Volatile,
    typer.Option(
        "--volatile",
        help="Values that browsers randomise: replaced by one token per browser family, left"
        " out, or as logged.",
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


def note_coverage(
    coverage: Mapping[str, float | None], k: int, *, missing: Missing, quiet: bool = False
) -> None:
    """Note on stderr which APIs many users lack."""
    said = {
        "value": "the others count as if they shared one (--missing exposed: as exposed)",
        "exposed": "the others count as exposed by it",
        "drop": "the others are left out, and nothing is said of them",
    }[missing]
    lacked = scarce(coverage)
    for api, share in lacked[:_NOTED]:
        having = f"fewer than {k}" if share is None else percent(share)
        note(f"{api}: only {having} of the users have a value; {said}", quiet=quiet)
    if len(lacked) > _NOTED:
        note(f"... and {len(lacked) - _NOTED:,} more APIs that users lack", quiet=quiet)


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
    if population.snapshot.values_are_digested:
        note("values are stored as digests: browsers and randomised values are not recognised")
    mixed = population.mixed_sources(k)
    for api, sources in list(mixed.items())[:_NOTED]:
        note(f"{api}: values of {', '.join(sources)} are mixed; --source NAME selects one")
    if len(mixed) > _NOTED:
        note(f"... and {len(mixed) - _NOTED:,} more APIs with several sources")
