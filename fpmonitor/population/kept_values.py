"""Few of the values of users, chosen by a hash, with all of their users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fpmonitor.estimate.mixing import GOLDEN, seed_of, splitmix64
from fpmonitor.population.memory import MemorySource, count_keys
from fpmonitor.spectrum import CountSpectrum


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ChosenValues:
    """Users whose values are counted by few of them."""

    users: int  # Number of all users, `m`.
    # Counts, of some sets, the spectra of the values that are kept, with probability `2^-level`
    # each, and all of their users; None where no value is kept. Which values are kept depends on
    # nothing that sets were chosen by.
    kept_spectra: Callable[[Sequence[Sequence[str]], int], list[CountSpectrum | None]]
    in_memory: bool = False  # Whether the users are.


def kept_in_memory(source: MemorySource, secret: str) -> ChosenValues:
    """Keep values of users in memory, by a hash made of a secret.

    It must not have played a part in what the sets and values are.
    """

    def kept_spectra(sets: Sequence[Sequence[str]], level: int) -> list[CountSpectrum | None]:
        return [kept_spectrum(source, secret, apis, level) for apis in sets]

    return ChosenValues(users=source.users, kept_spectra=kept_spectra, in_memory=True)


def kept_spectrum(
    source: MemorySource, secret: str, apis: Sequence[str], level: int
) -> CountSpectrum | None:
    """Count spectrum of the values of a set that are kept; None where none is."""
    table = source.table
    places = [source.apis.index(api) for api in sorted(apis)]
    keys, totals = count_keys(*table.keys(places), table.weights)
    seed = np.uint64(seed_of(secret, *sorted(apis)))
    words = splitmix64(splitmix64(keys.astype(np.uint64) + GOLDEN) ^ seed)
    # Of `level` bits all are 0 with probability 2^-level; a shift by all 64 is not defined.
    retained_totals = totals[words >> np.uint64(64 - level) == 0] if level else totals
    return (
        CountSpectrum.from_counts(retained_totals.astype(np.int64))
        if retained_totals.size
        else None
    )
