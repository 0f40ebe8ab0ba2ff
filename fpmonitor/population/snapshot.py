"""What a population is made of: one coded row a user, whoever keeps the rows.

The store and every engine hand out a `Snapshot`; all else (views, counting, masking) is
written once on top of it. An implementation answers the members of the protocol and nothing more.
"""

from __future__ import annotations

import copy
import secrets
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Self

import numpy as np

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.estimate.mixing import seed_of
from fpmonitor.population.browsers import UserRows, group_rows
from fpmonitor.spectrum import SpectrumSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from fpmonitor.account import Kind
    from fpmonitor.population.browsers import BrowserGroups, Codes
    from fpmonitor.population.kept_values import ChosenValues
    from fpmonitor.population.recoding import Recoding
    from fpmonitor.spectrum import CohortSpectra
    from fpmonitor.unit import Unit

Days = tuple[date, date]


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """Users who brought an API on several visits."""

    users: int = 0
    changed: int = 0  # Those who brought different values.
    kept: int = 0  # Those who brought the same value on two visits.

    def __add__(self, other: Returned) -> Returned:
        return Returned(
            users=self.users + other.users,
            changed=self.changed + other.changed,
            kept=self.kept + other.kept,
        )


# API -> family and major version of the browser, as of `BrowserGroups` -> who came back.
Repeats = Mapping[str, Mapping[tuple[int, int], Returned]]


class SpectrumQueries(SpectrumSource):
    """Spectra by query, of rows that do not fit into memory.

    Args:
        apis: The APIs that may be asked for.
    """

    def __init__(self, apis: Iterable[str]) -> None:
        self._apis = tuple(sorted(apis))
        self._absent_alone = False

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""
        return self._apis

    def selected(self, apis: Iterable[str]) -> Self:
        """Restrict the APIs that may be asked for."""
        other = copy.copy(self)
        other._apis = tuple(sorted(apis))  # noqa: SLF001 -- its own class
        return other

    def with_absent_alone(self) -> Self:
        """Let who lacks a value of a set share it with nobody, in spectra of that set."""
        other = copy.copy(self)
        other._absent_alone = True  # noqa: SLF001 -- its own class
        return other

    @abstractmethod
    def users_of_apis(self) -> Mapping[str, int]:
        """Count for each API the users with an observation of it."""

    @abstractmethod
    def users_of_codes(self, apis: Sequence[str]) -> dict[str, dict[int, int]]:
        """Count for each of some APIs the users with each code, absent too; for few values each."""

    @abstractmethod
    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of `apis` within each group of equal values of `given`, in order of the codes."""

    @abstractmethod
    def searched_and_rest(self, users: int, seed: int) -> tuple[SpectrumSource, ChosenValues]:
        """Divide the users into some to search among, and all others; as the seed has it."""


class Snapshot(UserRows):
    """One row a user with a code for each API; it never changes.

    Codes are whole numbers of the values of one API, 0 (`ABSENT`) where the user has none. Rows
    have an order, the same in every call. APIs that it lacks are refused with `UnknownNameError`.
    What is not kept of the logs (visits, times, sources) is told as nothing.
    """

    @property
    def visits(self) -> int:
        """Visits behind the rows; as many as `users` where nobody came twice or none were kept."""
        return self.users

    def came_back(self) -> int:
        """Count the users with several visits; of one session of a page all are one."""
        return 0

    @property
    def forgotten_on(self) -> date | None:
        """The last day on which visits were forgotten; null where none were."""
        return None

    @property
    @abstractmethod
    def digest(self) -> str:
        """Digest of the multiset of the rows' values, whatever their order and the users' names."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Key of the digests that leave, a secret of whoever keeps the rows."""

    @property
    @abstractmethod
    def values_are_digested(self) -> bool:
        """Whether digests of values are kept instead of values."""

    @property
    @abstractmethod
    def units(self) -> Sequence[Unit | None]:
        """Who the rows are, of each log; null where that was not said."""

    def members(self, k: int) -> Mapping[Kind, int]:  # noqa: ARG002
        """Count the members of the logs by what they were taken for; none where nobody knows."""
        return {}

    def in_memory(self, apis: int) -> bool:  # noqa: ARG002
        """Whether the rows of so many APIs may be read into memory; `codes` is not asked if not."""
        return True

    @abstractmethod
    def users_of_apis(self) -> Mapping[str, int]:
        """Count for each API the rows in which it is not absent."""

    def browser_groups(self) -> BrowserGroups:
        """Rows by browser and traits of automation.

        Their `rows` is None where the rows are not in memory.
        """
        return group_rows(self)

    def repeats(self, groups: BrowserGroups) -> Repeats:  # noqa: ARG002
        """Who came back, of the users of the rows; empty where nobody did."""
        return {}

    def queries(self, recoding: Recoding, present: Sequence[str]) -> SpectrumQueries:
        """Spectra by query of the rows as `recoding` shows them, of those with all of `present`.

        `present` is looked at after the recoding. `Recoding` says for each API and browser group
        what a code becomes, and which groups are left out. Rows in memory are counted there.
        """
        raise NotImplementedError

    def mixed_sources(self, k: int) -> Mapping[str, list[str]]:  # noqa: ARG002
        """APIs whose values come from several sources of at least k users, and these sources."""
        return {}

    def days(self, least: int) -> Days | None:  # noqa: ARG002
        """First and last day (UTC) with visits of so many users; None where there is none."""
        return None


def check_values_kept(snapshot: Snapshot, what: str) -> None:
    """Refuse what has to look into values where only digests of them are kept.

    Raises:
        InputError: They are.
    """
    if snapshot.values_are_digested:
        raise InputError(
            f"{what} looks into values, and only digests or counts of them are here",
            hint="use a database that was made without --digest-values",
        )


def words_of_rows(snapshot: Snapshot) -> NDArray[np.uint64]:
    """Return a pseudo-random word of each row that follows from its values alone, uint64.

    The same values have the same word, whoever keeps the rows and in which order. It reads all
    columns into memory, one after the other.
    """
    words = np.zeros(snapshot.users, dtype=np.uint64)
    for api in snapshot.apis:
        [codes] = snapshot.codes([api])
        word_of = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.uint64)
        for code, (status, text) in snapshot.values(api).items():
            if code < len(word_of):
                # By status and text: codes are numbered in the order of arrival.
                word_of[code] = seed_of(api, status, *([] if text is None else [text]))
        # A sum, so that the order of the APIs changes nothing; it wraps modulo 2^64.
        words += word_of[codes]
    return words


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MemorySnapshot(Snapshot):
    """A snapshot whose rows are in memory: of a calendar window, of a folder, of a frame.

    Attributes:
        columns: API -> codes.
        texts: Reads what the codes of an API stand for: see `Snapshot.values`.
        said: See `Snapshot`.
        people: int64, a number for each row, the same in every window; null where nobody is known
            again.
        digest, values_are_digested, returned, key, units: See `Snapshot`; `returned` finds out what
            `repeats` says, nothing by default, and the key is one of its own by default, so that
            nothing that leaves can be compared.
    """

    columns: Mapping[str, Codes]
    texts: Callable[[str], Mapping[int, tuple[str, str | None]]]
    said: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    values_are_digested: bool = False
    key: str = field(default_factory=secrets.token_hex)
    units: Sequence[Unit | None] = ("user",)
    returned: Callable[[], Repeats] = dict
    people: NDArray[np.int64] | None = None

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs, sorted."""
        return tuple(sorted(self.columns))

    @property
    def users(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def codes(self, apis: Sequence[str]) -> list[Codes]:
        """Codes of some APIs."""
        for api in apis:
            if api not in self.columns:
                raise UnknownNameError("API", api, self.columns)
        return [self.columns[api] for api in apis]

    def values(self, api: str) -> Mapping[int, tuple[str, str | None]]:
        """Status and text that each code of an API stands for."""
        return self.texts(api)

    def users_of_apis(self) -> Mapping[str, int]:
        """Count for each API the rows in which it is not absent."""
        return {api: int(np.count_nonzero(self.columns[api])) for api in self.apis}

    def repeats(self, groups: BrowserGroups) -> Repeats:
        """Who came back, as far as it was told."""
        del groups
        return self.returned()
