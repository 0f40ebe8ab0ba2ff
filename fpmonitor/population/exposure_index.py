"""Exposure of any API set at once: the users of one question, held in memory.

Groups are found exactly, by sorting whole numbers that name them. Two things make it fast: equal
users share a row, and a row that is alone in its group leaves after each sort, because more APIs
cannot bring it company.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.disclosure import is_withheld, most_exposing
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.estimate.exposure import empirical_exposure, unbiased_exposure
from fpmonitor.population.memory import (
    KEY_BITS,
    CodeTable,
    MemorySource,
    rank_keys,
    run_starts,
    sorted_numbers,
)
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from fpmonitor.estimate.certificate import Certificate


_HALF = 32
_LOWER = (1 << _HALF) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedExposure:
    """Exposure of one API set, as shares.

    Attributes
    ----------
    apis
        The set, sorted.
    empirical
        Share of the observed users in groups smaller than k.
    unbiased
        Estimate for the population; null for one above the number of users.
    lower, upper
        Limits of the certificate, each wrong with probability at most delta.
    suppressed
        Whether 1 to k - 1 users are exposed: the estimates are then those of k - 1 users.
    """

    apis: tuple[str, ...]
    empirical: float
    unbiased: float | None
    lower: float
    upper: float
    suppressed: bool


@dataclass(frozen=True, slots=True, eq=False)
class ExposureIndex:
    """Users in memory, merged where they agree on all APIs.

    Attributes
    ----------
    apis
        All that can be asked for, sorted.
    k, population
        Anonymity threshold and `n`, users.
    certificate
        Limits for this question.
    digest
        Digest of the data.
    users
        Observed users, `m`.
    table
        Distinct rows; the weight of each holds its users in the upper 32 bits, and in the lower 32
        those that the thinning keeps.
    """

    apis: tuple[str, ...]
    k: int
    population: int
    certificate: Certificate
    digest: str
    users: int
    table: CodeTable

    def explore(self, apis: Sequence[str]) -> IndexedExposure:
        """Exposure of one set; the numbers are those of `Monitor.exposure`.

        Raises
        ------
        InputError
            An empty set.
        UnknownNameError
            An API that is not held.
        """
        wanted = sorted(set(apis))
        if not wanted:
            raise InputError("apis: name at least one")
        full, thinned = self.spectra(wanted)
        told = most_exposing(full, self.k)
        limits = self.certificate
        return IndexedExposure(
            apis=tuple(wanted),
            empirical=empirical_exposure(told, self.k),
            unbiased=unbiased_exposure(told, k=self.k, population=self.population),
            lower=0.0 if thinned is None else limits.lower(thinned),
            upper=1.0 if thinned is None else limits.upper(thinned),
            suppressed=is_withheld(full, self.k),
        )

    def spectra(self, apis: Sequence[str]) -> tuple[CountSpectrum, CountSpectrum | None]:
        """Count spectra of all users and of those that the thinning keeps (None: it keeps nobody).

        Raises
        ------
        UnknownNameError
            An API that is not held.
        """
        for api in apis:
            if api not in self.apis:
                raise UnknownNameError("API", api, self.apis)
        columns = {self.apis.index(api) for api in apis}
        most_values_first = sorted(columns, key=lambda column: -self.table.cardinalities[column])
        sizes = _group_weights(self.table, most_values_first)
        full, thinned = sizes >> _HALF, sizes & _LOWER
        return _spectrum(full), _spectrum(thinned) if thinned.any() else None


def make_exposure_index(
    apis: Sequence[str],
    codes: Sequence[ArrayLike],
    dropped: NDArray[np.int64],
    *,
    k: int,
    population: int,
    certificate: Certificate,
    digest: str,
) -> ExposureIndex:
    """Hold users in memory.

    Parameters
    ----------
    apis, codes
        As of `engine.memory.MemorySource`.
    dropped
        Positions of the users that the thinning leaves out.
    k, population, certificate, digest
        See `ExposureIndex`.
    """
    source = MemorySource(apis, codes)
    if source.users >= 1 << (_HALF - 1):
        raise InputError(f"explorer: holds fewer than 2^{_HALF - 1} users")
    keys, size = source.table.keys(range(len(source.apis)))
    ranks, groups = rank_keys(keys, size)
    row = np.empty(groups, dtype=np.intp)
    row[ranks] = np.arange(len(ranks))
    users = np.bincount(ranks, minlength=groups)
    kept = users - np.bincount(ranks[dropped], minlength=groups)
    table = CodeTable(
        tuple(column[row] for column in source.table.columns),
        source.table.cardinalities,
        (users << _HALF | kept).astype(np.int64),
    )
    return ExposureIndex(
        apis=source.apis,
        k=k,
        population=population,
        certificate=certificate,
        digest=digest,
        users=source.users,
        table=table,
    )


def _spectrum(sizes: NDArray[np.int64]) -> CountSpectrum:
    values = np.bincount(sizes)
    counts = np.flatnonzero(values[1:]) + 1
    return CountSpectrum(counts, values[counts])


def _group_weights(table: CodeTable, columns: Sequence[int]) -> NDArray[np.int64]:
    """Total weight of each group of the columns."""
    parts: list[NDArray[np.int64]] = []
    rows: NDArray[np.intp] | None = None  # all
    ranks, groups = np.zeros(len(table.weights), dtype=np.int64), 1
    left = list(columns)
    while len(ranks):
        keys, left = _next_keys(table, rows, ranks, groups, left)
        order, starts = _sorted_groups(keys)
        rows = order if rows is None else rows[order]
        if not left:
            parts.append(np.add.reduceat(table.weights[rows], starts))
            break
        lengths = np.diff(starts, append=len(rows))
        shared = lengths > 1
        parts.append(table.weights[rows[starts[~shared]]])
        rows = rows[np.repeat(shared, lengths)]
        lengths = lengths[shared]
        ranks, groups = np.repeat(np.arange(len(lengths)), lengths), len(lengths)
    return np.concatenate(parts)


def _next_keys(
    table: CodeTable,
    rows: NDArray[np.intp] | None,
    ranks: NDArray[np.int64],
    groups: int,
    columns: list[int],
) -> tuple[NDArray[np.int64], list[int]]:
    """Numbers of the groups of as many more columns as leave room for a row number in 63 bits."""
    room = 1 << (KEY_BITS - len(ranks).bit_length())
    keys, size, left = ranks, groups, list(columns)
    while left and size * table.cardinalities[left[0]] <= room:
        codes = table.columns[left[0]]
        keys = keys * table.cardinalities[left[0]] + (codes if rows is None else codes[rows])
        size *= table.cardinalities[left.pop(0)]
    if columns and len(left) == len(columns):
        raise InputError("explorer: too many users and values for 63 bits")
    return keys, left


def _sorted_groups(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Positions in the order of their keys, and where in it each key begins."""
    bits = len(keys).bit_length()
    packed = sorted_numbers(keys << bits | np.arange(len(keys)))
    return packed & ((1 << bits) - 1), run_starts(packed >> bits)
