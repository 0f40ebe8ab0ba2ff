"""In-memory spectrum source: integer codes, equal rows merged, exact group counts by sorting.

A group is named by an exact mixed-radix number of its codes, never by a hash: two different tuples
cannot meet. Where the number would pass 63 bits, it is replaced by its rank first.
"""

from __future__ import annotations

import copy
import math
import os
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import polars as pl

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.spectrum import CohortSpectra, CohortSpectrum, CountSpectrum, SpectrumSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

    Codes = NDArray[np.integer[Any]]

KEY_BITS = 63  # keys are int64 and not negative
DENSE = 4  # count by direct addressing up to this many possible keys per row
_FEW = 1 << 15  # numbers, which numpy sorts faster whatever it runs on
_ROWS_PER_CELL = 16  # that a joint table of several sets has at least
_BYTES_PER_CODE = 12  # as read, as kept, and in keys
_BYTES_PER_USER = 100  # keys, their order, weights
MAX_USERS = 1 << 53  # sums of whole numbers below it are exact in float64


def has_room_for(users: int, apis: int) -> bool:
    """Whether rows of so many users fit into half of the machine's memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return users * (_BYTES_PER_USER + _BYTES_PER_CODE * apis) <= memory // 2


def sort_numbers(numbers: NDArray[np.int64]) -> None:
    """Sort whole numbers in place, in the way that is the faster one on this machine.

    numpy sorts by vector instructions: a million random numbers took it 4 ms on an AMD EPYC of
    2024, where Polars needs 12, but 50 ms on one of 2022, whose AVX-512 is slow to compress, where
    Polars needs 15. Few numbers numpy sorts faster in any case.
    """
    if len(numbers) < _FEW or _has_fast_vectors():
        numbers.sort()
    else:
        numbers[:] = pl.Series(numbers).sort(multithreaded=False).to_numpy()


@cache
def _has_fast_vectors() -> bool:
    """Whether numpy sorts many times faster than by merging, which needs no vectors.

    It took 1/14 of the time with AVX-512, 1/9 with AVX2, as much with neither; Polars takes 1/6.
    Polars itself is not tried: a first call to it costs more than many sorts.
    """
    numbers = np.arange(1 << 13) * 0x1E3779B97F4A7C15
    numbers = (numbers ^ numbers >> 31) * 0x1E3779B97F4A7C15  # in no order
    return 5 * _seconds_to_sort(numbers, "quicksort") < _seconds_to_sort(numbers, "stable")


def _seconds_to_sort(numbers: NDArray[np.int64], kind: Literal["quicksort", "stable"]) -> float:
    """Least time of a few runs, without that of other threads."""
    seconds = []
    for _ in range(3):
        started = time.thread_time()
        np.sort(numbers, kind=kind)
        seconds.append(time.thread_time() - started)
    return min(seconds)


def run_starts(ordered: Codes) -> NDArray[np.intp]:
    """Positions at which a new value begins in an ordered, non-empty array."""
    changes = np.empty(len(ordered), dtype=np.bool_)
    changes[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def run_totals(sums: NDArray[np.int64], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    """Total of each run, which begin at `starts`, of numbers whose running sums are given."""
    # `np.add.reduceat` took as long as the sort that it follows.
    return np.diff(sums.take(np.append(starts[1:], len(sums)) - 1), prepend=0)


def has_room(size: int, weights: NDArray[np.int64]) -> bool:
    """Whether a key below `size` and any of the weights fit side by side into 63 bits."""
    return size < 1 << (KEY_BITS - int(weights.max()).bit_length())


def merge_keys(
    keys: NDArray[np.int64], weights: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct keys in increasing order, and the total weight of each; `keys` is overwritten.

    The weight rides in the lowest bits of the number that is sorted, because sorting numbers is
    many times cheaper than finding the order of rows: the caller asks `has_room` first. All is
    done in place, as large new arrays cost about as much as the sort.
    """
    shift = int(weights.max()).bit_length()
    if shift == 1:
        sort_numbers(keys)
        starts = run_starts(keys)
        return keys[starts], np.diff(starts, append=len(keys))
    keys <<= shift
    keys |= weights
    sort_numbers(keys)
    starts = run_starts(keys >> shift)
    distinct = keys[starts]
    distinct >>= shift
    keys &= (1 << shift) - 1
    return distinct, run_totals(np.cumsum(keys, out=keys), starts)


def is_dense(size: int, keys: int) -> bool:
    """Whether so many keys below `size` are counted by direct addressing."""
    return size <= DENSE * keys


def rank_keys(keys: Codes, size: int) -> tuple[NDArray[np.intp], int]:
    """Replace keys below `size` by their ranks among the distinct keys; how many those are."""
    if size == 1:
        return keys.astype(np.intp, copy=False), 1
    if not is_dense(size, len(keys)):
        distinct, ranks = np.unique(keys, return_inverse=True)
        return ranks, len(distinct)
    present = np.zeros(size, dtype=np.bool_)
    present[keys] = True
    ranks = present.cumsum()
    ranks -= 1
    return ranks[keys], int(ranks[-1]) + 1


def count_keys(
    keys: NDArray[np.int64], size: int, weights: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64] | NDArray[np.float64]]:
    """Distinct keys, all below `size`, in increasing order, and the total weight of each.

    The keys may be overwritten.
    """
    if is_dense(size, len(keys)):
        totals = np.bincount(keys, weights, minlength=size)
        present = np.flatnonzero(totals > 0)  # of truth values it is many times faster
        return present, totals[present]
    if has_room(size, weights):
        return merge_keys(keys, weights)
    distinct, ranks = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(ranks, weights)


def smallest_type(size: int) -> np.dtype[Any]:
    """Choose the smallest type for codes below `size`, one that can be added to int64."""
    return np.dtype(np.int64) if size > 1 << 32 else np.min_scalar_type(size - 1)


def kinds_of_rows(columns: Sequence[Codes]) -> NDArray[np.intp]:
    """Give equal rows one number, from 0 on, in the order of their codes.

    Args:
        columns: At least one, all of the same length.
    """
    kinds = np.zeros(len(columns[0]), dtype=np.intp)
    for codes in columns:
        found, position = np.unique(codes, return_inverse=True)
        _, kinds = np.unique(kinds * len(found) + position, return_inverse=True)
    return kinds


def joined_kinds(
    columns: Sequence[Codes],
) -> tuple[NDArray[np.intp], list[tuple[int, ...]]]:
    """Return the numbers of `kinds_of_rows`, and the codes of each number."""
    kinds = kinds_of_rows(columns)
    _, first = np.unique(kinds, return_index=True)
    return kinds, list(zip(*(codes[first].tolist() for codes in columns), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class CodeTable:
    """Rows of integer codes, each standing for a number of users."""

    # One unsigned array per column, all of the same length, at least one row.
    columns: tuple[Codes, ...]
    cardinalities: tuple[int, ...]  # Codes of column `i` are below `cardinalities[i]`.
    weights: NDArray[np.int64]  # int64, users of each row, at least 1.

    def keys(self, columns: Sequence[int]) -> tuple[NDArray[np.int64], int]:
        """Name the groups of `columns` by whole numbers, ordered as their tuples are.

        Returns the number of each row and a bound that all are below. The numbers are mixed-radix
        ones; where they would pass 63 bits, those of the first columns are replaced by ranks.
        """
        if not columns:
            return np.zeros(len(self.weights), dtype=np.int64), 1
        keys = self.columns[columns[0]].astype(np.int64)
        size = self.cardinalities[columns[0]]
        for column in columns[1:]:
            cardinality = self.cardinalities[column]
            # Ranks keep the order of tuples, and are at most as many as rows.
            if size * cardinality >= 1 << KEY_BITS:
                keys, size = rank_keys(keys, size)
            keys *= cardinality
            keys += self.columns[column]
            size *= cardinality
        return keys, size

    def fits(self, columns: Sequence[int]) -> bool:
        """Whether the groups of `columns` have plain keys with room for the weights in 63 bits."""
        return has_room(self._possible(columns), self.weights)

    def sizes(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """Users of each group of `columns`, in the order of the tuples."""
        if not columns:
            return np.array([self.weights.sum()])
        keys, size = self.keys(columns)
        _, sizes = count_keys(keys, size, self.weights)
        return sizes.astype(np.int64)

    def sizes_of(self, sets: Sequence[Sequence[int]]) -> list[NDArray[np.int64]]:
        """Users of each group of each set of columns, as `sizes` tells them of one.

        Sets of few possible groups are counted together: their sizes are sums over a joint table.
        """
        sizes = {}
        weights = self.weights.astype(np.float64)  # as they are counted, once for all
        for columns, places in self._together(sets):
            keys, size = self.keys(columns)
            # To sum the table of one set over no axis takes as long as to count its keys. Ranks in
            # place of keys name no cell of a joint table, however few they are.
            is_joint = size == self._possible(columns) and is_dense(size, len(keys))
            if len(places) == 1 or not is_joint:
                sizes[places[0]] = count_keys(keys, size, self.weights)[1].astype(np.int64)
                continue
            joint = np.bincount(keys, weights, size)
            joint = joint.reshape([self.cardinalities[column] for column in columns])
            for place in places:
                summed = [axis for axis, column in enumerate(columns) if column not in sets[place]]
                users = joint.sum(axis=tuple(summed)).ravel()
                sizes[place] = users[users > 0].astype(np.int64)
        return [sizes[place] for place in range(len(sets))]

    def _together(self, sets: Sequence[Sequence[int]]) -> list[tuple[list[int], list[int]]]:
        """Columns that are counted together, and the places of the sets that are within them."""
        most = len(self.weights) // _ROWS_PER_CELL
        parts: list[tuple[list[int], list[int]]] = []
        for place in sorted(range(len(sets)), key=lambda place: self._possible(sets[place])):
            columns = sorted({*sets[place], *parts[-1][0]}) if parts else []
            if parts and self._possible(columns) <= most:
                parts[-1] = (columns, [*parts[-1][1], place])
            else:
                parts.append((sorted(sets[place]), [place]))
        return parts

    def _possible(self, columns: Iterable[int]) -> int:
        """Count the groups that the columns could make."""
        return math.prod(self.cardinalities[column] for column in columns)

    def merged(self, columns: Sequence[int], *, cap: int | None = None) -> CodeTable:
        """Keep `columns` only and one row for each of their distinct tuples, in their order.

        Weights above `cap` are cut to it, where one is given.
        """
        keys, size = self.keys(columns)
        cardinalities = tuple(self.cardinalities[column] for column in columns)
        merged_columns: list[Codes]
        if self.fits(columns):
            distinct, totals = count_keys(keys, size, self.weights)
            weights = totals.astype(np.int64, copy=False)
            merged_columns = _decode(distinct, cardinalities)
        else:
            ranks, groups = rank_keys(keys, size)
            row = np.empty(groups, dtype=np.intp)
            row[ranks] = np.arange(len(ranks))
            weights = np.bincount(ranks, self.weights).astype(np.int64)
            merged_columns = [self.columns[column][row] for column in columns]
        if cap is not None:
            np.minimum(weights, cap, out=weights)
        return CodeTable(tuple(merged_columns), cardinalities, weights)

    def leading(self, columns: int, *, cap: int) -> CodeTable:
        """Keep only the first `columns` of rows that stand in the order of all, as `merged` does.

        That needs no sort: equal rows stand together. Weights above `cap` are cut to it.
        """
        leading_columns, new = self.columns[:columns], np.zeros(len(self.weights), dtype=np.bool_)
        new[0] = True
        for column in leading_columns:
            new[1:] |= column[1:] != column[:-1]
        starts = np.flatnonzero(new)
        weights = np.minimum(run_totals(self.weights.cumsum(), starts), cap)
        codes = tuple(column[starts] for column in leading_columns)
        return CodeTable(codes, self.cardinalities[:columns], weights)


def _decode(keys: NDArray[np.int64], cardinalities: Sequence[int]) -> list[Codes]:
    """Codes of each column from mixed-radix numbers, the first column the most significant.

    The numbers are overwritten: arrays of numbers are large, and new ones cost more than sums.
    """
    codes: list[Codes] = []
    quotients, products = np.empty_like(keys), np.empty_like(keys)
    for cardinality in reversed(cardinalities[1:]):
        np.floor_divide(keys, cardinality, out=quotients)  # np.divmod lacks the fast path
        np.multiply(quotients, cardinality, out=products)
        keys -= products
        codes.append(keys.astype(smallest_type(cardinality)))
        keys, quotients = quotients, keys
    if cardinalities:
        codes.append(keys.astype(smallest_type(cardinalities[0])))
    return codes[::-1]


class MemorySource(SpectrumSource):
    """Spectrum source over integer codes held in memory.

    Args:
        apis: Names, without repetition, in any order.
        codes: One array of whole numbers (at least 0) per API, all of one length, an entry for each
            row. 0 stands for an absent value, and counts like any other.
        weights: Users of each row, whole numbers of at least 1; one user a row when left out.
        always: Number of each row, by which every set is grouped as by one API more; null for none.

    Raises:
        InputError: Arrays of different lengths, numbers that are not whole or too small, a repeated
            name, no row, or 2^53 users and more.
    """

    def __init__(
        self,
        apis: Sequence[str],
        codes: Sequence[ArrayLike],
        weights: ArrayLike | None = None,
        *,
        always: NDArray[np.intp] | None = None,
    ) -> None:
        if len(set(apis)) != len(apis) or len(apis) != len(codes):
            raise InputError("memory source: give one array of codes for each distinct API")
        named = sorted(zip(apis, codes, strict=True), key=lambda each: each[0])
        coded = [_dense(*each) for each in named]
        coded += [] if always is None else [_dense("groups", always)]
        rows = {len(column) for column, _ in coded}
        if weights is None:
            users = np.ones(max(rows, default=0), dtype=np.int64)
        else:
            users = _whole_numbers("weights", weights, least=1).astype(np.int64)
        if rows - {len(users)} or not len(users):
            raise InputError("memory source: codes and weights must have one length, above 0")
        # As a float: the sum of hostile weights may pass 63 bits and be small again.
        if users.sum(dtype=np.float64) >= MAX_USERS:
            raise InputError(f"memory source: weights must add up to less than {MAX_USERS} users")
        self._apis = tuple(sorted(apis))
        self.table = CodeTable(
            tuple(column for column, _ in coded), tuple(number for _, number in coded), users
        )

    def _of(self, apis: Sequence[str], table: CodeTable) -> Self:
        source = copy.copy(self)
        source._apis = tuple(apis)  # noqa: SLF001 -- its own class
        source.table = table
        return source

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""
        return self._apis

    @property
    def users(self) -> int:
        """Number of users, the same for every set."""
        return int(self.table.weights.sum())

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`, exact."""
        return CountSpectrum.from_counts(self.table.sizes(self._positions(apis)))

    def spectra(self, sets: Iterable[Sequence[str]]) -> list[CountSpectrum]:
        """Count spectra of the sets, in their order: in less time than of one after the other."""
        sizes = self.table.sizes_of([self._positions(apis) for apis in sets])
        return [*map(CountSpectrum.from_counts, sizes)]

    def restricted(self, apis: Sequence[str]) -> Self:
        """Source of fewer APIs; users that agree on all of them share one row."""
        apis = sorted(set(apis))
        return self._of(apis, self.table.merged(self._positions(apis)))

    def selected(self, apis: Sequence[str]) -> Self:
        """Source of fewer APIs; equal rows are merged only where that is cheap."""
        apis = sorted(set(apis))
        places = self._positions(apis)
        if self.table.fits(places):
            return self._of(apis, self.table.merged(places))
        columns = tuple(self.table.columns[place] for place in places)
        cardinalities = tuple(self.table.cardinalities[place] for place in places)
        return self._of(apis, CodeTable(columns, cardinalities, self.table.weights))

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of `apis` within each group of equal values of `given`, in order of the codes."""
        table = self.table
        telling = list(dict.fromkeys(self.apis.index(api) for api in given))
        places = list(dict.fromkeys([*telling, *(self.apis.index(api) for api in apis)]))
        ranks, groups = rank_keys(*table.keys(places))
        row = np.empty(groups, dtype=np.intp)
        row[ranks] = np.arange(len(ranks))
        cohort = table.keys(telling)[0][row]
        users = np.bincount(ranks, table.weights, minlength=groups).astype(np.int64)
        starts = np.flatnonzero(np.diff(cohort, prepend=-1))
        columns = [table.columns[self.apis.index(api)] for api in given]
        return [
            CohortSpectra(
                codes=tuple(int(column[row[start]]) for column in columns),
                spectrum=CountSpectrum.from_counts(users[start:end]),
            )
            for start, end in zip(starts, [*starts[1:], groups], strict=True)
        ]

    @property
    def always(self) -> tuple[int, ...]:
        """Columns of the table by which every set is grouped: those behind the APIs."""
        return tuple(range(len(self.apis), len(self.table.columns)))

    def _positions(self, apis: Sequence[str]) -> list[int]:
        for api in apis:
            if api not in self.apis:
                raise UnknownNameError("API", api, self.apis)
        return [*(self.apis.index(api) for api in sorted(set(apis))), *self.always]


class CohortSource(MemorySource):
    """Users whose cohort sites see in any case: all sets are grouped `always` by it as well."""

    def spectrum(self, apis: Sequence[str]) -> CohortSpectrum:
        """Count spectrum of the tuples of the cohort and the values of `apis`, exact."""
        table = self.table
        keys, totals = count_keys(*table.keys(self._positions(apis)), table.weights)
        number = table.cardinalities[-1]
        # The cohort is the last column, so the lowest digit of the mixed-radix number.
        return CohortSpectrum.of_groups(totals.astype(np.int64), keys % number, number)

    def spectra(self, sets: Iterable[Sequence[str]]) -> list[CountSpectrum]:
        """Count spectra of the sets, in their order."""
        return [*map(self.spectrum, sets)]


def _whole_numbers(name: str, numbers: ArrayLike, *, least: int) -> NDArray[np.integer[Any]]:
    array = np.asarray(numbers)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise InputError(f"memory source: {name} must be a list of whole numbers")
    if array.size and array.min() < least:
        raise InputError(f"memory source: {name} must be at least {least}, got {array.min()}")
    return array.astype(np.intp) if not array.size else array


def _dense(api: str, codes: ArrayLike) -> tuple[Codes, int]:
    """Codes without gaps in the smallest type that holds them, and their number."""
    array = _whole_numbers(f"codes of {api}", codes, least=0)
    size = int(array.max()) + 1 if array.size else 1
    smallest = np.min_scalar_type(size)
    if size > 1 << KEY_BITS:
        raise InputError(f"memory source: codes of {api} must be below 2^{KEY_BITS}")
    if not is_dense(size, len(array)):
        ranks, size = rank_keys(array.astype(np.int64), size)
        return ranks.astype(np.min_scalar_type(size)), size
    present = np.zeros(size, dtype=np.bool_)  # many times cheaper than to count
    present[array] = True
    # Codes that leave no gap stay as they are, which spares a pass over all rows.
    if present.all():
        return array.astype(smallest), size
    places = np.cumsum(present) - 1
    number = int(places[-1]) + 1
    return places.astype(np.min_scalar_type(number))[array], number
