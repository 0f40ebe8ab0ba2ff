"""Options that say which users are asked, and how their values are preprocessed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.options import DB, DEFAULT_DB, ENGINE, SINCE, SPECTRA, UNTIL
from fpmonitor.cli.output import note
from fpmonitor.decide.guarantee import scarce
from fpmonitor.disclosure import Audience, publishable_count
from fpmonitor.errors import some_of
from fpmonitor.policy import disclosed_from
from fpmonitor.population.evidence import lack_in_words
from fpmonitor.population.robots import robots_list
from fpmonitor.population.views import View, Volatile
from fpmonitor.render.numbers import percent
from fpmonitor.store.snapshot import Window
from fpmonitor.store.transforms import read_transforms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fpmonitor.decide.decision import Decision
    from fpmonitor.monitor import Monitor
    from fpmonitor.population.evidence import Lack
    from fpmonitor.population.population import Population
    from fpmonitor.question import Missing
    from fpmonitor.store.transforms import Transform

_NOTED = 5
_Answer = TypeVar("_Answer")

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
        rich_help_panel="Data",
    ),
]
SOURCE = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="Only observations of this library, for example 'fingerprintjs 5.2.0', or write key; "
        "with ! before the name, all others.",
        metavar="NAME",
        rich_help_panel="Data",
    ),
]


@dataclass(frozen=True, kw_only=True)
class StoredUsers:
    """Options for the users of a database file."""

    db: DB = DEFAULT_DB
    since: SINCE = None
    until: UNTIL = None

    @property
    def window(self) -> Window:
        """Observations that count."""
        return Window(self.since, self.until)

    @property
    def view(self) -> View:
        """How values are preprocessed."""
        return View()

    def open(self, *, audience: Audience | None = None) -> Monitor:
        """Open the database for questions."""
        return open_monitor(self.db, window=self.window, view=self.view, audience=audience)


@dataclass(frozen=True, kw_only=True)
class UsersOfSource(StoredUsers):
    """Options for users, as one library observed them."""

    source: SOURCE = None

    @property
    def window(self) -> Window:
        """Observations that count."""
        return Window(self.since, self.until, self.source)


@dataclass(frozen=True, kw_only=True)
class ViewedUsers(UsersOfSource):
    """Options for users whose randomised values and automation are treated in some way."""

    volatile: VOLATILE = "shared"
    drop_automation: DROP_AUTOMATION = False

    @property
    def view(self) -> View:
        """How values are preprocessed."""
        return View(volatile=self.volatile, drop_automation=self.drop_automation)


@dataclass(frozen=True, kw_only=True)
class TransformedUsers(ViewedUsers):
    """Options for users whose values may also be transformed."""

    what_if: WHAT_IF = None

    @property
    def view(self) -> View:
        """How values are preprocessed."""
        return replace(super().view, transforms=declared_transforms(self.what_if))


@dataclass(frozen=True, kw_only=True)
class AnsweredUsers(TransformedUsers):
    """Options for users of whom also a warehouse may have told count spectra."""

    spectra: SPECTRA = None
    engine: ENGINE = None

    def open(self, *, audience: Audience | None = None) -> Monitor:
        """Open the database, or the spectra, for questions."""
        return open_monitor(
            self.db,
            window=self.window,
            view=self.view,
            audience=audience,
            engine=self.engine,
            spectra=self.spectra or (),
        )

    def settled(
        self, monitor: Monitor, work: Callable[[], _Answer], is_whole: Callable[[_Answer], bool]
    ) -> _Answer:
        """Do some work until all that it needs was answered; else once."""
        from fpmonitor.warehouse import SpectraMonitor  # noqa: PLC0415 -- not for --help

        if isinstance(monitor, SpectraMonitor):
            return monitor.settled(work, is_whole=is_whole)
        return work()


def note_beside(monitor: Monitor, decision: Decision, *, quiet: bool = False) -> None:
    """Note on stderr what a site reads that has the lists of other decisions on the users, too."""
    from fpmonitor.answers.beside import decisions_beside  # noqa: PLC0415 -- slow
    from fpmonitor.answers.questions import list_questions  # noqa: PLC0415 -- slow

    # What else was asked is for the owner; a warehouse keeps no list of it.
    if quiet or monitor.audience is not Audience.OWNER or monitor.listing is None:
        return
    listed = list_questions(monitor.listing)
    for other in decisions_beside(monitor.population_as(decision), decision, listed):
        note(other.text)


def check_borne_out(
    monitor: Monitor, users: Population, decision: Decision, *, with_names: bool = True
) -> bool:
    """Check a decision by the users that it was made of; return False where these are others.

    Counts of an engine or a warehouse are left to `audit certificate`.
    """
    from fpmonitor.answers import spectra  # noqa: PLC0415 -- slow
    from fpmonitor.answers.questions import list_questions  # noqa: PLC0415 -- slow

    if monitor.listing is None:
        return True
    listed = list_questions(monitor.listing)
    return spectra.bear_out(users, decision, listed, with_names=with_names)


def declared_transforms(what_if: Path | None) -> Mapping[str, Transform]:
    """Return the value transforms of a file; none without one."""
    return {} if what_if is None else read_transforms(what_if)


def note_coverage(
    coverage: Mapping[str, float | None], k: int, *, missing: Missing, quiet: bool = False
) -> None:
    """Note on stderr which APIs many users lack."""
    said = {
        "value": "the others count as if they shared one (--missing exposed: as exposed)",
        "exposed": "the others count as exposed by it",
        "drop": "the others are left out, and nothing is said of them",
    }[missing]
    few = f"fewer than {disclosed_from(k)} users"
    named = [
        f"{api} ({few if share is None else percent(share)})" for api, share in scarce(coverage)
    ]
    if named:
        note(f"not all users have a value of {some_of(named, _NOTED)}; {said}", quiet=quiet)


def note_lacks(lacks: Mapping[str, Lack], k: int, *, quiet: bool = False) -> None:
    """Note on stderr of which APIs the users are no evidence, and why."""
    for api, lack in list(lacks.items())[:_NOTED]:
        note(f"no evidence about {api}: {lack_in_words(lack, k)}", quiet=quiet)
    if len(lacks) > _NOTED:
        note(f"... and no evidence about {len(lacks) - _NOTED:,} more APIs", quiet=quiet)


def note_evidence(decision: Decision, *, quiet: bool = False) -> None:
    """Note on stderr of which candidates nothing is known, and which of the others users lack."""
    k, lacks = decision.policy.k, decision.no_evidence
    note_lacks(lacks, k, quiet=quiet)
    if lacks:
        note("no list holds an API without evidence; --assume NAME takes one in", quiet=quiet)
    coverage = {api: had for api, had in (decision.coverage or {}).items() if api not in lacks}
    note_coverage(coverage, k, missing=decision.missing, quiet=quiet)


def note_view(population: Population, k: int) -> None:
    """Note on stderr who was excluded, what was transformed, and which sources are mixed."""
    view = population.view
    units = {unit or "user" for unit in population.snapshot.units}
    if len(units) > 1:
        named = " and ".join(f"{unit}s" for unit in sorted(units))
        note(f"the logs hold {named}: all count as {population.unit}s", unit="user")
    if population.without_few(k) is not population:
        note(f"fewer than {k} users look automated: they count in what others see")
    elif view.drop_automation:
        dropped = publishable_count(population.dropped, k, population.audience)
        number = f"fewer than {disclosed_from(k)}" if dropped is None else f"{dropped:,}"
        note(f"{number} users that look automated are excluded (by {robots_list()})")
    if view.transforms:
        note(f"value transforms applied to: {', '.join(sorted(view.transforms))}")
    if view.volatile == "raw":
        note("randomised values count as logged, although they identify nobody for long")
    if population.snapshot.values_are_digested:
        note("values are not known here: browsers and randomised values are not recognised")
    mixed = population.mixed_sources(k)
    for api, sources in list(mixed.items())[:_NOTED]:
        note(f"{api}: values of {', '.join(sources)} are mixed; --source NAME selects one")
    if len(mixed) > _NOTED:
        note(f"... and {len(mixed) - _NOTED:,} more APIs with several sources")
