"""Populations of windows: the users of a day, a batch or a source, one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError
from fpmonitor.population.browsers import telling_columns
from fpmonitor.population.population import Population
from fpmonitor.population.snapshot import MemorySnapshot, Repeats
from fpmonitor.population.stored import stored_snapshot, window_snapshot
from fpmonitor.population.views import View
from fpmonitor.population.volatile import Versions, contradicted, may_be_masked
from fpmonitor.store.database import Database
from fpmonitor.store.kept_windows import KeptWindow, keep_windows, kept_windows
from fpmonitor.store.names import said_names
from fpmonitor.store.snapshot import Window, units_of
from fpmonitor.store.windows import PARTS, Division, Span, count_timeless, has_users, list_spans
from fpmonitor.unit import Unit


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The windows of a database.

    Attributes:
        division: Their length, or `batch` or `source`.
        window: Which visits count.
        view, audience: As of `Population`; values made coarser cannot be compared between windows.

    Raises:
        InputError: The view makes values coarser.
    """

    database: Database
    division: Division
    window: Window
    view: View
    audience: Audience = Audience.OWNER

    def __post_init__(self) -> None:
        if self.view.transforms:
            raise InputError("windows: values made coarser cannot be compared between windows")

    @property
    def units(self) -> Sequence[Unit | None]:
        """Who the rows are, of each log."""
        return units_of(self.database, self.window)

    def spans(self) -> tuple[Span, ...]:
        """Windows with visits, in the order of time."""
        return list_spans(self.database, self.division, self.window)

    def population(self, span: Span, apis: Sequence[str]) -> Population:
        """Read the users of a window, with some APIs; codes mean the same in every window."""
        view, said = self.view, self._said
        masks = may_be_masked(apis, view, said)
        if view.drop_automation or masks:
            known = [name for _, name in self.database.rows("snapshot/apis")]
            # Which browser a user has is told by APIs that nobody asked for.
            apis = list(dict.fromkeys([*apis, *telling_columns(known, said)]))
        repeats = (lambda: self._repeats) if masks else dict
        snapshot = window_snapshot(self.database, span, apis, repeats)
        return Population(snapshot, window=span.window, view=view, audience=self.audience)

    def may_be_masked(self, apis: Sequence[str]) -> bool:
        """Whether the view masks values of some APIs unless data contradict it."""
        return may_be_masked(apis, self.view, self._said)

    def named(self, apis: Sequence[str]) -> tuple[str, ...]:
        """Return what the log calls some APIs."""
        nobody = np.zeros(0, dtype=np.uint8)
        snapshot = MemorySnapshot(
            columns=dict.fromkeys(self.apis, nobody),
            texts=lambda _api: {},
            said=self._said,
        )
        return Population(snapshot, audience=self.audience).named(apis)

    @property
    def apis(self) -> tuple[str, ...]:
        """Names of all APIs that were ever observed, sorted."""
        return tuple(sorted(name for _, name in self.database.rows("snapshot/apis")))

    def nameable_apis(self, k: int) -> tuple[str, ...]:
        """APIs whose names may be told, sorted: see `Population.publishable_apis`."""
        apis = self.apis
        if self.audience is Audience.OWNER:
            return apis
        if self.window != Window() or self.view.drop_automation or self.may_be_masked(apis):
            users = stored_snapshot(self.database, self.window)
            population = Population(
                users, window=self.window, view=self.view, audience=self.audience
            )
            return population.publishable_apis(k)
        numbers = {name: number for number, name in self.database.rows("snapshot/apis")}
        return tuple(api for api in apis if has_users(self.database, numbers[api], k))

    def kept(self, question: Sequence[object]) -> tuple[KeptWindow, ...]:
        """Windows with visits, in the order of time, and what is kept of a question about them.

        Args:
            question: All that the answer follows from beside these windows, as it prints.
        """
        if not self._are_kept:
            return tuple(KeptWindow(span=span) for span in self.spans())
        name = self._name_of(question)
        return tuple(kept_windows(self.database, name, self.division, self.window.source))

    def keep(self, question: Sequence[object], windows: Sequence[KeptWindow]) -> None:
        """Keep what a question found in windows that it read."""
        if self._are_kept and windows:
            keep_windows(self.database, self._name_of(question), self.division, windows)

    @property
    def _are_kept(self) -> bool:
        """Whether they are whole: limits of time cut windows, and batches and sources are parts."""
        return self.division not in PARTS and self.window.since is self.window.until is None

    def _name_of(self, question: Sequence[object]) -> str:
        # Whatever an answer follows from is in its name: it is given for no other question.
        seen = (self.division, self.window.source, self.view.description, self.audience.value)
        said = sorted(self._said.items())
        return hashlib.sha256(repr((*seen, said, *question)).encode()).hexdigest()

    def contradicted(self, apis: Sequence[str]) -> tuple[tuple[str, Versions], ...]:
        """Which of some APIs count as they were logged, as users came back with their values."""
        return contradicted(self._repeats, apis, self._said)

    @cached_property
    def _said(self) -> dict[str, str]:
        """What the user said that columns hold."""
        return said_names(self.database)

    @cached_property
    def _repeats(self) -> Repeats:
        """Who came back in all windows together: what they contradict counts as logged in each."""
        snapshot = stored_snapshot(self.database, self.window)
        return snapshot.repeats(snapshot.browser_groups())

    @property
    def timeless(self) -> int:
        """Visits without a time, which no window holds."""
        return count_timeless(self.database)
