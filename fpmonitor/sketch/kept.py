"""The values that are kept of a set, and how many users each has; sums of them in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.sketch.words import is_kept, level_for
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_PENDING = 1 << 20


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class KeptValues:
    """Kept values of one API set.

    Attributes:
        apis: The set, sorted.
        level: A value is kept with probability 2^-level.
        words: uint64, increasing, one per kept value.
        counts: int64, users of each, at least 1.
    """

    apis: tuple[str, ...]
    level: int
    words: NDArray[np.uint64]
    counts: NDArray[np.int64]

    @property
    def spectrum(self) -> CountSpectrum:
        """How many kept values have how many users."""
        return CountSpectrum.from_counts(self.counts)


class Tally:
    """Adds up users by word, whatever the order; memory follows the words that are kept.

    Args:
        apis: The set.
        entries: Words to keep at most: the level is raised to the least at which no more are kept.
            As words only come, it is the same in every order. None keeps the level.
    """

    def __init__(self, apis: tuple[str, ...], entries: int | None) -> None:
        self._apis, self._entries, self._level = apis, entries, 0
        self._words, self._counts = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._pending: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        self._waiting = 0

    def add(
        self, words: NDArray[np.uint64], counts: NDArray[np.int64] | None = None, *, level: int = 0
    ) -> None:
        """Add users by word: all users of the words that are kept at `level`, one each by default.

        Words may occur several times.
        """
        if level > self._level:
            self._level = level
            self._words, self._counts = self._filtered(self._words, self._counts)
        if counts is None:
            counts = np.ones(len(words), dtype=np.int64)
        self._pending.append(self._filtered(words, counts))
        self._waiting += len(self._pending[-1][0])
        if self._waiting > max(_LEAST_PENDING, 2 * len(self._words)):
            self._settle()

    def kept(self, level: int = 0) -> KeptValues:
        """Return what is kept, at a level not below `level`."""
        self.add(np.zeros(0, dtype=np.uint64), level=level)
        self._settle()
        return KeptValues(
            apis=self._apis, level=self._level, words=self._words, counts=self._counts
        )

    def _filtered(
        self, words: NDArray[np.uint64], counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        is_in = is_kept(words, self._level)
        return words[is_in], counts[is_in]

    def _settle(self) -> None:
        parts = [(self._words, self._counts), *self._pending]
        words = np.concatenate([words for words, _ in parts])
        counts = np.concatenate([counts for _, counts in parts])
        self._pending, self._waiting = [], 0
        self._words, places = np.unique(words, return_inverse=True)
        self._counts = np.zeros(len(self._words), dtype=np.int64)
        np.add.at(self._counts, places, counts)
        if self._entries is not None:
            self._level = level_for(self._words, self._entries, self._level)
        self._words, self._counts = self._filtered(self._words, self._counts)
