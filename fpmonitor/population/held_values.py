"""Few of the values of users in memory, chosen by a hash, with all of their users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.estimate.mixing import GOLDEN, seed_of, splitmix64
from fpmonitor.population.memory import count_keys
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.population.memory import MemorySource


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeldValues:
    """Spectra of the values that are kept.

    Attributes
    ----------
    source
        The users.
    secret
        What the hash is made of; it must not have played a part in what the sets and values are.
    """

    source: MemorySource
    secret: str

    @property
    def users(self) -> int:
        """Number of all users."""
        return self.source.users

    def kept_spectra(self, sets: Sequence[Sequence[str]], level: int) -> list[CountSpectrum | None]:
        """Count spectra of the values kept, with probability `2^-level`; None where none is."""
        return [self._kept_spectrum(apis, level) for apis in sets]

    def _kept_spectrum(self, apis: Sequence[str], level: int) -> CountSpectrum | None:
        table = self.source.table
        places = [self.source.apis.index(api) for api in sorted(apis)]
        keys, totals = count_keys(*table.keys(places), table.weights)
        seed = np.uint64(seed_of(self.secret, *sorted(apis)))
        words = splitmix64(splitmix64(keys.astype(np.uint64) + GOLDEN) ^ seed)
        kept = totals[words >> np.uint64(64 - level) == 0] if level else totals
        return CountSpectrum.from_counts(kept.astype(np.int64)) if kept.size else None
