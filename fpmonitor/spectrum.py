"""The count spectrum: the sufficient statistic of every exposure estimate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fpmonitor.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class CountSpectrum:
    """How many distinct values were seen how often.

    Attributes:
        counts: int64, strictly increasing, each at least 1: numbers of users.
        values: int64, same shape, each at least 1: `values[i]` distinct values have `counts[i]`
            users each.

    Raises:
        InputError: Empty, not whole numbers, not positive, not increasing, or of different shapes.
    """

    counts: NDArray[np.int64]
    values: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("counts", "values"):
            array = np.asarray(getattr(self, name))
            if array.ndim != 1 or not (array.size and np.issubdtype(array.dtype, np.integer)):
                raise InputError(f"spectrum: {name} must be a non-empty list of whole numbers")
            if array.min() < 1:
                raise InputError(f"spectrum: {name} must be at least 1, got {array.min()}")
            array = array.astype(np.int64)
            # Spectra are kept and shared by sources, so nobody may change one.
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.counts.shape != self.values.shape:
            raise InputError("spectrum: counts and values must have the same length")
        if np.any(np.diff(self.counts) <= 0):
            raise InputError("spectrum: counts must be strictly increasing")

    @classmethod
    def from_counts(cls, counts: ArrayLike) -> Self:
        """Spectrum of a list of group sizes (whole numbers; zeros are values nobody has)."""
        sizes = np.asarray(counts)
        if sizes.size and not np.issubdtype(sizes.dtype, np.integer):
            raise InputError("spectrum: counts must be whole numbers")
        if sizes.size and sizes.min() < 0:
            raise InputError(f"spectrum: counts must not be negative, got {sizes.min()}")
        distinct, values = np.unique(sizes[sizes > 0], return_counts=True)
        return cls(distinct, values)

    @classmethod
    def from_mapping(cls, values_by_count: Mapping[int, int]) -> Self:
        """Spectrum of a mapping from a count to the number of values with that count."""
        counts = sorted(values_by_count)
        return cls(
            np.array(counts, dtype=np.int64),
            np.array([values_by_count[count] for count in counts], dtype=np.int64),
        )

    @classmethod
    def together(cls, spectra: Iterable[CountSpectrum]) -> Self:
        """Spectrum of groups that were counted apart, all of them together."""
        found: Counter[int] = Counter()
        for one in spectra:
            found.update(dict(zip(one.counts.tolist(), one.values.tolist(), strict=True)))
        return cls.from_mapping(found)

    @property
    def users(self) -> int:
        """Observed users, `m`."""
        return int(self.counts.dot(self.values))  # for few counts twice as fast as @

    @property
    def members(self) -> NDArray[np.int64]:
        """Users that are in groups of each size, int64, in the order of `counts`."""
        return self.counts * self.values

    @property
    def support(self) -> int:
        """Number of distinct values seen."""
        return int(self.values.sum())

    def groups(self) -> list[tuple[int, int, int]]:
        """Users (last) in groups of so few to so many, as `publishable_groups` returns them."""
        sizes, users = self.counts.tolist(), self.members.tolist()
        return list(zip(sizes, sizes, users, strict=True))

    def users_below(self, k: int) -> int:
        """Users in groups of fewer than `k` users (strict)."""
        small = self.counts < k
        return int(self.counts[small] @ self.values[small])


@dataclass(frozen=True, slots=True, eq=False)
class CohortSpectrum(CountSpectrum):
    """The spectrum of all users, and how the groups of each cohort are: no group is in two."""

    cohort_users: NDArray[np.int64]  # int64, users of each cohort, by its number.
    # cohorts, sizes, members_of: Of each cohort and size of group that there is: its number, the
    # size, and the users of the cohort in groups of that size.
    cohorts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    members_of: NDArray[np.int64]

    @classmethod
    def of_groups(
        cls, sizes: NDArray[np.int64], cohort: NDArray[np.int64], number: int
    ) -> CohortSpectrum:
        """Spectrum of groups of these sizes, each of one of a number of cohorts."""
        whole = CountSpectrum.from_counts(sizes)
        # Cohort and size in one number, which `np.unique` sorts as a plain array.
        kinds, groups = np.unique(cohort * (int(sizes.max()) + 1) + sizes, return_counts=True)
        cohorts, of_size = np.divmod(kinds, int(sizes.max()) + 1)
        members = of_size * groups
        users = np.bincount(cohorts, members, minlength=number).astype(np.int64)
        return cls(whole.counts, whole.values, users, cohorts, of_size, members)

    def groups_by_cohort(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """Users (last) in groups of so few to so many, of each cohort."""
        # Cohorts come in order; where the first one begins, nothing is cut.
        starts = np.flatnonzero(np.diff(self.cohorts, prepend=-1))[1:]
        parts = zip(np.split(self.sizes, starts), np.split(self.members_of, starts), strict=True)
        return tuple(
            tuple(zip(sizes.tolist(), sizes.tolist(), users.tolist(), strict=True))
            for sizes, users in parts
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CohortSpectra:
    """Users that share the values of some APIs, and how those of other APIs divide them."""

    codes: tuple[int, ...]  # Code of each API that makes the cohort, 0 for absent.
    spectrum: CountSpectrum  # Count spectrum of its users.


@dataclass(frozen=True, slots=True, eq=False)
class DisclosedSpectra:
    """What is told of a count spectrum: estimates and limits are computed from nothing else."""

    most: CountSpectrum  # Estimates and upper limits: no user is in a larger group than in truth.
    least: CountSpectrum  # Lower limits: no user is in a smaller group than in truth.
    suppressed: bool  # Whether they differ from the truth, or could.
    # Fewer users than this number may in truth be in smaller groups than it, whom `least` counts to
    # the largest group; more than all users where nothing is told, and 0 for the truth. The
    # certificate needs it, as its limits need not grow with the exposure.
    hidden: int = 0

    @classmethod
    def all_of(cls, spectrum: CountSpectrum) -> Self:
        """Tell a spectrum as it is."""
        return cls(spectrum, spectrum, suppressed=False)


class SpectrumSource(ABC):
    """Anything that yields the count spectrum of any set of its APIs.

    Every engine implements it, so that every statistic and the search run on every engine. Where
    groups of few users are known as one sum, or are not told, its spectra are those in which no
    user is in a larger group than in truth.
    """

    @property
    @abstractmethod
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""

    @property
    @abstractmethod
    def users(self) -> int:
        """Number of users, the same for every set."""

    @abstractmethod
    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`.

        The empty set has one value, shared by all users.
        """

    def spectra(self, sets: Iterable[Sequence[str]]) -> list[CountSpectrum]:
        """Count spectra of many sets, in their order; together where that takes less time."""
        return [*map(self.spectrum, sets)]

    @property
    def least(self) -> SpectrumSource | None:
        """Spectra in which no user is in a smaller group than in truth; null: they are the same."""
        return None

    def disclosed(self, apis: Sequence[str]) -> DisclosedSpectra | None:  # noqa: ARG002
        """Return what is told of a set whose groups are not all known; null where they are."""
        return None

    def ranges(self, apis: Sequence[str]) -> list[tuple[int, int, int]]:
        """Users (last) in groups of so few to so many."""
        return self.spectrum(apis).groups()
