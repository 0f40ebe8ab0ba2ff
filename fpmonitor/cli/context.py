"""What the options before the command ask for, and the one place where commands open databases."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.disclosure import Audience
    from fpmonitor.monitor import Monitor
    from fpmonitor.population.views import View
    from fpmonitor.store.database import Database
    from fpmonitor.store.files import Patience
    from fpmonitor.store.snapshot import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """Options of one call of the program.

    Attributes
    ----------
    for_others
        Whether what is printed is handed on.
    key_file
        Holds the key of the database; None where it is not encrypted.
    wait
        Seconds to wait for a database that another process has open.
    """

    for_others: bool = False
    key_file: Path | None = None
    wait: float = 0.0

    @property
    def audience(self) -> Audience:
        """Whom answers are for."""
        from fpmonitor.disclosure import Audience  # noqa: PLC0415 -- not for --help

        return Audience.OTHERS if self.for_others else Audience.OWNER

    @property
    def patience(self) -> Patience:
        """How long to wait for a database, which is said on stderr."""
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
) -> Monitor:
    """Open a database for questions; the audience is that of the options unless one is named."""
    from fpmonitor.monitor import Monitor  # noqa: PLC0415 -- not for --help

    invocation = INVOCATION.get()
    return Monitor(
        db,
        create=create,
        window=window,
        view=view,
        audience=audience or invocation.audience,
        key_file=invocation.key_file,
        patience=invocation.patience,
    )


def open_database(db: Path, *, create: bool = False) -> Database:
    """Open a database for what is not a question."""
    from fpmonitor.store.database import Database  # noqa: PLC0415 -- not for --help

    invocation = INVOCATION.get()
    return Database(db, create=create, key_file=invocation.key_file, patience=invocation.patience)
