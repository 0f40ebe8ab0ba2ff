"""Search among level vectors: those that pass, which all coarser ones do as well.

A level stands for itself and all coarser ones of its component, one bit each, so that a vector is
below another where its bits are within those of the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.decide.search import Family
from fpmonitor.population.levels import Vector, is_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fpmonitor.decide.effort import Effort

_HALF = 0.5
_SOLVING = 10.0  # seconds for one bound, at most


class VectorSearch:
    """Which vectors pass a test; all that is found out is kept, and never tested again.

    Parameters
    ----------
    chains
        How many levels each component has above its lowest, which is 0 here.
    passes
        The test of one vector: a vector below one that passes passes too.
    effort
        Ends the search.

    Attributes
    ----------
    tested
        Vectors that were tested.
    complete
        Whether both borders are known.
    """

    def __init__(
        self, chains: Sequence[int], passes: Callable[[Vector], bool], effort: Effort
    ) -> None:
        self.chains = tuple(chains)
        self._starts = [0, *accumulate(self.chains)]
        self._test, self._effort = passes, effort
        columns = self._starts[-1]
        self._passed, self._failed = Family(columns), Family(columns)
        self._smallest_failing: dict[Vector, None] = {}
        self.tested = 0
        self.complete = False

    @property
    def passed(self) -> list[Vector]:
        """Vectors that pass, none below another."""
        return sorted(map(self._vector, self._passed.maximal()))

    @property
    def failed(self) -> list[Vector]:
        """Vectors that fail, none above another."""
        return sorted(map(self._vector, self._failed.minimal()))

    def learn(self, passed: Iterable[Vector], failed: Iterable[Vector]) -> None:
        """Take what an earlier search found out."""
        for vector in passed:
            self._passed.add(self._bits(vector))
        for vector in failed:
            self._failed.add(self._bits(vector))
            self._smallest_failing[vector] = None

    def passes(self, vector: Vector) -> bool:
        """Whether a vector passes."""
        bits = self._bits(vector)
        if self._passed.has_superset(bits):
            return True
        if self._failed.has_subset(bits):
            return False
        self._effort.check(f"{self.tested:,} level vectors tested")
        self.tested += 1
        good = self._test(vector)
        (self._passed if good else self._failed).add(bits)
        return good

    def raised(self, vector: Vector) -> Vector:
        """Return a largest vector that passes, above one that does."""
        for place, highest in enumerate(self.chains):
            low, high = vector[place], highest
            while low < high:
                middle = (low + high + 1) // 2
                if self.passes(_with(vector, place, middle)):
                    low = middle
                else:
                    high = middle - 1
            vector = _with(vector, place, low)
        return vector

    def lowered(self, vector: Vector) -> Vector:
        """Return a smallest vector that fails, below one that does."""
        for place in range(len(self.chains)):
            low, high = 0, vector[place]
            while low < high:
                middle = (low + high) // 2
                if self.passes(_with(vector, place, middle)):
                    low = middle + 1
                else:
                    high = middle
            vector = _with(vector, place, high)
        self._smallest_failing[vector] = None
        return vector

    def borders(self) -> None:
        """Find all largest vectors that pass, and all smallest that fail.

        What is below no vector that is known to pass has smallest members: where one of them
        passes, there is another largest one above it; when all fail, both borders are known
        (dualise and advance: Gunopulos, Khardon, Mannila, Saluja, Toivonen, Sewak, Sharma 2003).
        """
        open_ends = _Beyond(self.chains)
        for known in self.passed:
            open_ends.without(known)
        failing = set[Vector]()
        while (vector := self._first_passing(open_ends.smallest(), failing)) is not None:
            open_ends.without(self.raised(vector))
        self.complete = True

    def _first_passing(self, vectors: Iterable[Vector], failing: set[Vector]) -> Vector | None:
        """Return the first vector that passes; those before it are noted as failing."""
        for vector in vectors:
            if vector not in failing:
                if self.passes(vector):
                    return vector
                failing.add(vector)
        return None

    def best(self, utilities: Sequence[Sequence[float]], found: BestVector) -> None:
        """Find the vector of the greatest utility that passes; `found` keeps what is proven.

        The best vector above none that is known to fail is tested. Where it fails, it is brought
        down until it passes, and each smallest vector that fails on the way bounds the next one.
        The lowest vector passes.
        """
        while found.utility < found.bound:
            vector, bound = self._hoped(utilities)
            found.bound = min(found.bound, max(bound, found.utility))
            if vector is None:
                return
            hoped = vector
            while not self.passes(vector):
                failing = self.lowered(vector)
                _, place = min(
                    (utilities[place][vector[place]] - utilities[place][level - 1], place)
                    for place, level in enumerate(failing)
                    if level
                )
                vector = _with(vector, place, failing[place] - 1)
            found.offer(self.raised(vector), utilities)
            if vector == hoped:
                found.bound = found.utility

    def _hoped(self, utilities: Sequence[Sequence[float]]) -> tuple[Vector | None, float]:
        """Vector of the greatest utility above none that is known to fail, and a bound of all.

        A whole-number programme; null where it was not solved in time.
        """
        self._effort.check(f"{self.tested:,} level vectors tested")
        gains = np.concatenate([np.diff(utility) for utility in utilities])
        least = math.fsum(utility[0] for utility in utilities)
        rows: list[tuple[list[int], list[int], int]] = [([], [], 0)]
        for start, end in pairwise(self._starts):
            rows += [([column, column - 1], [1, -1], 0) for column in range(start + 1, end)]
        for failing in self._smallest_failing:
            shown = zip(self._starts, failing, strict=False)
            columns = [start + level - 1 for start, level in shown if level]
            rows.append((columns, [1] * len(columns), len(columns) - 1))
        holds = scipy.sparse.csr_array(
            (
                [value for _, values, _ in rows for value in values],
                [column for places, _, _ in rows for column in places],
                [0, *accumulate(len(places) for places, _, _ in rows)],
            ),
            shape=(len(rows), len(gains)),
        )
        solved = scipy.optimize.milp(
            -gains,
            integrality=np.ones(len(gains)),
            bounds=scipy.optimize.Bounds(0, 1),
            constraints=scipy.optimize.LinearConstraint(holds, ub=[most for *_, most in rows]),
            options={"time_limit": min(_SOLVING, self._effort.left), "mip_rel_gap": 0},
        )
        bound = math.inf if solved.mip_dual_bound is None else least - solved.mip_dual_bound
        if solved.x is None:
            return None, bound
        levels = np.add.reduceat(np.r_[solved.x, 0] > _HALF, self._starts[:-1])
        vector = np.where(np.array(self.chains) > 0, levels, 0)
        return tuple(vector.tolist()), bound

    def _bits(self, vector: Vector) -> int:
        return sum(
            ((1 << level) - 1) << start for start, level in zip(self._starts, vector, strict=False)
        )

    def _vector(self, bits: int) -> Vector:
        return tuple(
            (bits >> start & ((1 << length) - 1)).bit_length()
            for start, length in zip(self._starts, self.chains, strict=False)
        )


@dataclass(slots=True)
class BestVector:
    """What is known of the greatest utility: a vector, null for none yet, and what none exceeds."""

    vector: Vector | None
    utility: float
    bound: float

    @classmethod
    def unknown(cls, finest: Vector, utilities: Sequence[Sequence[float]]) -> BestVector:
        """Begin where no vector is known to pass, and none is finer than `finest`."""
        return cls(None, 0.0, _utility_of(finest, utilities))

    def offer(self, vector: Vector, utilities: Sequence[Sequence[float]]) -> None:
        """Note a vector that passes; of equal utilities that of the larger rank stays."""
        utility = _utility_of(vector, utilities)
        if self.vector is None or (utility, sum(vector)) > (self.utility, sum(self.vector)):
            self.vector, self.utility = vector, utility


def _utility_of(vector: Vector, utilities: Sequence[Sequence[float]]) -> float:
    """Sum of the utilities of the levels of a vector."""
    return math.fsum(utility[level] for utility, level in zip(utilities, vector, strict=True))


class _Beyond:
    """The smallest vectors that are below none of a growing family."""

    def __init__(self, chains: Sequence[int]) -> None:
        self._chains = chains
        self._smallest: dict[Vector, None] = {(0,) * len(chains): None}

    def smallest(self) -> list[Vector]:
        return list(self._smallest)

    def without(self, highest: Vector) -> None:
        """Leave out all vectors below another one."""
        below = [vector for vector in self._smallest if is_below(vector, highest)]
        for vector in below:
            del self._smallest[vector]
        for place, level in enumerate(highest):
            if level == self._chains[place]:
                continue
            # Of what stays, only vectors of this very level here can be below a new one.
            rivals = [vector for vector in self._smallest if vector[place] == level + 1]
            raised = sorted({_with(vector, place, level + 1) for vector in below}, key=sum)
            for vector in raised:
                if not any(is_below(rival, vector) for rival in rivals):
                    rivals.append(vector)
                    self._smallest[vector] = None


def _with(vector: Vector, place: int, level: int) -> Vector:
    return (*vector[:place], level, *vector[place + 1 :])
