"""The best set where APIs have levels: the best that may be allowed, brought down until it is.

Each step solves a whole-number programme over what is known to be refused. Where the borders are
found in time it is not needed; of 2 billion vectors it left 4.8 of 12 and a bound of 9.2 after a
minute. Of single levels `decide.best` proves far more in the same time: 14 to 18 of 60 APIs, where
this stands at 7 to 55. But its dolls know of no column that brings others along.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fpmonitor.decide.utility import hoped_set
from fpmonitor.population.levels import finest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.decide.decision import ApiSet
    from fpmonitor.decide.effort import Effort
    from fpmonitor.decide.search import Sought
    from fpmonitor.estimate.criterion import Criterion
    from fpmonitor.spectrum import SpectrumSource

_SOLVING = 10.0  # seconds for one programme, at most


@dataclass(slots=True, kw_only=True)
class HopedSearch:
    """Sets that hold all that their APIs bring along."""

    # source, criterion: The users, and the test of one set.
    source: SpectrumSource
    criterion: Criterion
    candidates: Sequence[str]
    sought: Sought
    effort: Effort  # When to end.
    # passed, failed: What is known of sets; all that is found out joins it.
    passed: list[ApiSet] = field(default_factory=list)
    failed: list[ApiSet] = field(default_factory=list)
    bound: float | None = None  # Weight that no passing set exceeds.
    tested: int = 0  # Sets that were tested.
    _smallest_failed: list[ApiSet] = field(init=False)

    def __post_init__(self) -> None:
        self._smallest_failed = [*self.failed]

    def run(self) -> None:
        """Find the passing set of the greatest weight, or end with what is proven."""
        if not self._passes({*self.sought.must}):
            return
        while True:
            self.effort.check(f"{self.tested:,} level vectors tested")
            hoped = hoped_set(
                self.candidates,
                self._smallest_failed,
                self.sought,
                seconds=min(_SOLVING, self.effort.left),
            )
            self.bound = min(hoped.weight, hoped.weight if self.bound is None else self.bound)
            if not hoped.apis:
                return
            if self._brought_down({*self.sought.along(hoped.apis)}):
                return

    def _brought_down(self, members: set[str]) -> bool:
        """Leave out what fails until a set passes; whether nothing had to be left out."""
        whole, must = {*members}, {*self.sought.must}
        along, weights = self.sought.along, self.sought.weights
        while not self._passes(members):
            failing = self._smallest(members)
            free = [api for api in failing - must if not self._brought_by(api, failing)]
            if not free:
                return True  # nothing passes that holds what must be held
            out = min(free, key=lambda api: (weights.get(api, 1.0), api))
            members = {api for api in members if out not in along([api])}
        return members == whole

    def _smallest(self, members: set[str]) -> set[str]:
        """Return a failing set within one, without anything that it fails without."""
        free, along = members - {*self.sought.must}, self.sought.along
        for api in sorted(free, key=lambda api: (-len(along([api])), api)):
            if api in members and not self._brought_by(api, members):
                less = members - {api}
                if not self._passes(less):
                    members = less
        self._smallest_failed.append(tuple(sorted(members)))
        return members

    def _brought_by(self, api: str, members: set[str]) -> bool:
        return any(api in self.sought.along([other]) for other in members - {api})

    def _passes(self, members: set[str]) -> bool:
        if any(members <= {*known} for known in self.passed):
            return True
        if any(members >= {*known} for known in self.failed):
            return False
        self.effort.check(f"{self.tested:,} level vectors tested")
        self.tested += 1
        spectrum = self.source.spectrum(finest(members))  # what they bring along divides nobody
        passes = self.criterion.holds(spectrum, len(members))
        (self.passed if passes else self.failed).append(tuple(sorted(members)))
        return passes
