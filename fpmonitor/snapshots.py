"""The monitor of users whose snapshot lies in a folder: see `cluster.snapshot`."""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NoReturn

from fpmonitor.cluster.engine import open_engine
from fpmonitor.cluster.folder import FolderSnapshot
from fpmonitor.disclosure import Audience
from fpmonitor.errors import EngineLostError, InputError
from fpmonitor.monitor import Monitor
from fpmonitor.population.population import Population
from fpmonitor.population.views import View
from fpmonitor.store.snapshot import Window
from fpmonitor.unit import Unit, weakest

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision

# What the page can show of a database, but not of such users.
UNTOLD = (
    "These users are held in a snapshot: exposure over time, what scripts read, and which records "
    "were rejected are shown for a database file only."
)


class SnapshotMonitor(Monitor):
    """A snapshot in a folder, and the questions that can be asked of it.

    What only a database keeps is refused: windows of time, sources, demand, rejects.

    Parameters
    ----------
    folder
        Of the snapshot, as `take_engine_snapshot` named it.
    engine
        Address of a server of Spark Connect that reads the folder; by default this computer does,
        and rows must fit into its memory.
    view, audience
        As of a monitor.

    Raises
    ------
    InputError
        The folder holds no snapshot, or the address is none.
    EngineLostError
        Nobody answers at the address.
    """

    def __init__(
        self,
        folder: str,
        engine: str | None = None,
        *,
        view: View | None = None,
        audience: Audience = Audience.OWNER,
    ) -> None:
        self.view, self.audience, self.window = view or View(), audience, Window()
        self._folder = folder
        self._engine = None if engine is None else open_engine(engine)
        try:
            self.snapshot = FolderSnapshot(folder, self._engine)
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The name of the folder."""
        return PurePath(self._folder).name

    @property
    def unit(self) -> Unit:
        """What is counted."""
        return weakest(self.snapshot.units)

    @property
    def counter(self) -> str:
        """The address of the engine, which decisions note where it counted."""
        return "memory" if self._engine is None else self._engine.address

    @property
    def _listing(self) -> None:
        """Null: a snapshot keeps no list of questions."""

    @property
    def lost(self) -> bool:
        """Whether the engine was lost; a decision made then holds what is proven."""
        return self._engine is not None and self._engine.lost

    def close(self) -> None:
        """End the session on the engine."""
        if self._engine is not None:
            self._engine.close()

    def __exit__(self, *raised: object) -> None:
        try:
            self.close()
        except EngineLostError:
            if raised[0] is None and not self.lost:
                raise

    @cached_property
    def database(self) -> NoReturn:  # type: ignore[override]
        """Refuse: there is none."""
        raise InputError(
            "a snapshot keeps neither sources, times, demand nor rejects",
            hint="use a database file for that: omit --snapshot",
        )

    def population(
        self,
        *,
        window: Window | None = None,
        view: View | None = None,
        audience: Audience | None = None,
    ) -> Population:
        """Return the users that questions are about; errors as of `Monitor.population`."""
        if window not in {None, Window()}:
            _ = self.database
        return Population(self.snapshot, view=view or self.view, audience=audience or self.audience)

    def _kept_beside(self, users: Population, decision: Decision) -> dict[str, Any]:
        del users, decision
        return {"untold": [UNTOLD]}
