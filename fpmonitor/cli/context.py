"""Options before the command, and the one place where commands open databases."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.cli.subject import UNIT
from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fpmonitor.disclosure import Audience
    from fpmonitor.monitor import Monitor
    from fpmonitor.population.views import View
    from fpmonitor.store.database import Database
    from fpmonitor.store.files import Patience
    from fpmonitor.store.snapshot import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """Options of one call of the program."""

    for_others: bool = False  # Whether the output is for others.
    key_file: Path | None = None  # Holds the key of the database; None where it is not encrypted.
    wait: float = 0.0  # Seconds to wait for a database that another process has open.

    @property
    def audience(self) -> Audience:
        """Who answers are for."""
        from fpmonitor.disclosure import Audience  # noqa: PLC0415 -- not for --help

        return Audience.OTHERS if self.for_others else Audience.OWNER

    @property
    def patience(self) -> Patience:
        """How long to wait for a database; waiting is noted on stderr."""
        from fpmonitor.cli.output import note  # noqa: PLC0415 -- not for --help
        from fpmonitor.store.files import Patience  # noqa: PLC0415

        return Patience(self.wait, note)


INVOCATION: ContextVar[Invocation] = ContextVar("INVOCATION", default=Invocation())  # noqa: B039 -- frozen


def open_monitor(
    db: Path,
    *,
    create: bool = False,
    window: Window | None = None,
    view: View | None = None,
    audience: Audience | None = None,
    engine: str | None = None,
    spectra: Sequence[Path] = (),
    kept: bool = True,
) -> Monitor:
    """Open a database, or what a warehouse answered, for questions.

    The audience is that of the options unless one is named; `kept` as of `Monitor`.
    """
    from fpmonitor.monitor import Monitor  # noqa: PLC0415 -- not for --help

    invocation = INVOCATION.get()
    # An address asks a warehouse; other words say how rows that are here are counted.
    server = engine if engine is not None and "://" in engine else None
    if spectra:
        if window is not None and any(window.bounds.values()):
            raise InputError(
                "--spectra: answers hold neither times nor sources",
                hint="omit --since, --until and --source, or use a database file",
            )
        return _open_spectra(spectra, server, view, audience or invocation.audience)
    if server is not None:
        raise InputError(
            "--engine: a server needs --spectra FOLDER",
            hint="ask it with `fpmonitor scale sql --to FOLDER`, or fetch your table into a "
            "database with `fpmonitor scale fetch`",
        )
    monitor = Monitor(
        db,
        create=create,
        window=window,
        view=view,
        audience=audience or invocation.audience,
        key_file=invocation.key_file,
        patience=invocation.patience,
        kept=kept,
    )
    if not create:  # then no log is to be read
        # A statement of a database that comes from anybody must open no other file.
        monitor.database.bar_other_files()
        UNIT.set(monitor.unit)
    return monitor


def _open_spectra(
    paths: Sequence[Path], engine: str | None, view: View | None, audience: Audience
) -> Monitor:
    from fpmonitor.cli.output import note  # noqa: PLC0415 -- not for --help
    from fpmonitor.warehouse import SpectraMonitor  # noqa: PLC0415

    monitor = SpectraMonitor(paths, engine, view=view, audience=audience)
    UNIT.set(monitor.unit)
    if monitor.nameless:
        note(f"{monitor.nameless:,} rows of the table name no user, and do not count", unit="user")
    if monitor.is_masked:
        note("small groups are known as one sum: estimates take their users for unique")
    return monitor


def open_database(db: Path, *, create: bool = False) -> Database:
    """Open a database for what is not a question."""
    from fpmonitor.store.database import Database  # noqa: PLC0415 -- not for --help

    invocation = INVOCATION.get()
    return Database(db, create=create, key_file=invocation.key_file, patience=invocation.patience)
