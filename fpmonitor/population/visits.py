"""Visits in place of users: one whole visit of each user, drawn, or all of them in their order.

The values that users showed last may come from several visits, so nobody need have shown them
together. A visit is a whole tuple: one is drawn of each user, and the mean of the score over draws
is tested, so no draw decides. The path is the tuples in their order, repeats left out: what a site
sees that knows its users again. Theorems: docs/certificate/visits.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.estimate.mixing import GOLDEN, seed_of, splitmix64
from fpmonitor.policy import DRAWS
from fpmonitor.population.memory import MemorySource, kinds_of_rows
from fpmonitor.spectrum import CountSpectrum, SpectrumSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.store.visits import VisitRows

MOST_CELLS = 20_000_000  # values of visits, or of draws, that are read where nobody asked for them


def with_values(visits: VisitRows, apis: Sequence[str], *, whole: bool) -> VisitRows:
    """Return the visits that brought a value of some API of a set; where `whole`, of all."""
    brought = np.array([visits.codes[api] != 0 for api in apis])
    has_values = np.all(brought, axis=0) if whole else np.any(brought, axis=0)
    return visits.only(np.asarray(has_values))


def visits_of_set(visits: VisitRows, apis: Sequence[str]) -> VisitRows:
    """Return the visits that brought a value of a set, and the first visit of who has none."""
    brought = np.any([visits.codes[api] != 0 for api in apis], axis=0)
    is_first = np.zeros(len(visits.rows), dtype=np.bool_)
    is_first[visits.starts] = True
    has_none = ~np.logical_or.reduceat(brought, visits.starts)[visits.rows]
    return visits.only(brought | (is_first & has_none))


def tuple_ids(visits: VisitRows, apis: Sequence[str]) -> NDArray[np.intp]:
    """Give the whole tuple of each visit a number, equal ones the same."""
    columns = [visits.codes[api] for api in apis]
    return kinds_of_rows(columns or [np.zeros(len(visits.rows), dtype=np.intp)])


def drawn_visits(visits: VisitRows, draws: int) -> list[NDArray[np.intp]]:
    """Place of one visit of each user, for several draws.

    The draw of a user follows from its number alone: not from values, nor from the set.
    """
    starts = visits.starts
    number = np.diff(np.append(starts, len(visits.rows)))
    # By the number of the user, which a new visit of another one does not change.
    words = visits.users[starts].astype(np.uint64) * GOLDEN
    places = []
    for draw in range(draws):
        mixed = splitmix64(words + np.uint64(seed_of("visit", str(draw))))
        # 53 bits, all that a float holds: below 1, so no place is past the last visit.
        share = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
        places.append(starts + (share * number).astype(np.intp))
    return places


def path_words(visits: VisitRows, ids: NDArray[np.intp], key: str) -> NDArray[np.uint64]:
    """Return a word of each user's path: tuples in their order, repeats in a row left out.

    The key is a secret, so nobody can make two paths that have one word.
    """
    new_user = np.diff(visits.rows, prepend=-1) > 0
    is_new = new_user | (np.diff(ids, prepend=-1) != 0)
    rows, starts = visits.rows[is_new], np.flatnonzero(new_user[is_new])
    place = np.arange(len(rows)) - starts[rows]
    word = splitmix64(ids[is_new].astype(np.uint64) * GOLDEN + np.uint64(seed_of("path", key)))
    # The place joins before the sum, or paths of the same tuples in another order would be one.
    word = splitmix64(word + place.astype(np.uint64) * GOLDEN)
    return np.add.reduceat(word, starts)


@dataclass(frozen=True, eq=False)
class PathSource(SpectrumSource):
    """All visits of each user in their order, as a source of spectra."""

    visits: VisitRows
    key: str

    @cached_property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""
        return tuple(sorted(self.visits.codes))

    @cached_property
    def users(self) -> int:
        """Number of users."""
        return len(self.visits.starts)

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the paths of the tuples of the values of `apis`."""
        words = path_words(self.visits, tuple_ids(self.visits, sorted({*apis})), self.key)
        return CountSpectrum.from_counts(np.unique(words, return_counts=True)[1])


class VisitSource(MemorySource):
    """One visit of each user, drawn `DRAWS` times: a row each, grouped within its draw.

    Args:
        visits: Those that brought a value.
    """

    def __init__(self, visits: VisitRows) -> None:
        places, apis = drawn_visits(visits, DRAWS), sorted(visits.codes)
        rows = np.concatenate(places)
        draw = np.repeat(np.arange(DRAWS), len(places[0]))
        super().__init__(apis, [visits.codes[api][rows] for api in apis], always=draw)

    @property
    def users(self) -> int:
        """Number of users."""
        return super().users // DRAWS

    @property
    def draws(self) -> list[MemorySource]:
        """Return each draw by itself: a visit of each user."""
        *columns, draw = self.table.columns
        return [
            MemorySource(self.apis, [codes[draw == each] for codes in columns])
            for each in range(DRAWS)
        ]
