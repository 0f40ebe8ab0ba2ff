"""Count spectra that a warehouse answered: see `asking.py`. Users whose rows nobody here sees."""

from __future__ import annotations

import copy
import csv
import hashlib
import io
import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

import numpy as np

from fpmonitor.errors import InputError, UndecidableError, UnknownNameError, excerpt
from fpmonitor.population.browsers import UNKNOWN, BrowserGroups
from fpmonitor.population.snapshot import Snapshot, SpectrumQueries
from fpmonitor.safe_files import read_bytes
from fpmonitor.spectrum import CountSpectrum, DisclosedSpectra
from fpmonitor.store.snapshot import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from fpmonitor.population.recoding import Recoding
    from fpmonitor.spectrum import CohortSpectra
    from fpmonitor.unit import Unit

ApiSet = tuple[str, ...]
Side = Literal["most", "least"]
_COLUMNS = ("apis", "lacking", "smallest", "largest", "users")
_HINT = "save the whole answer of a statement of `fpmonitor scale sql` as CSV, with its header"
MOST_SETS = 500  # that one statement asks for
# Above it a console's fractions are no whole numbers any more.
_MOST = 2**53  # users; a console may write whole numbers as fractions


class Groups(NamedTuple):
    """Users in groups of so many to so many, all of whom lack a value of the set, or none."""

    lacking: bool
    smallest: int
    largest: int
    users: int


@dataclass(slots=True)
class AnsweredSets:
    """What was answered so far.

    Attributes:
        sets: Set of columns, sorted -> its groups.
        users: Different users; null before any answer.
        rows: Rows that name a user, and those that do not.
        are_rows: Whether rows count as users, as no column names these.
        guessed: Null; or guesses for sets that no answer is of, while what has to be asked next is
            found out: see `SpectraMonitor.settled`.
    """

    sets: dict[ApiSet, tuple[Groups, ...]] = field(default_factory=dict)
    users: int | None = None
    rows: tuple[int, int] = (0, 0)
    are_rows: bool = False
    guessed: dict[ApiSet, tuple[Groups, ...]] | None = None

    def of(self, apis: ApiSet) -> tuple[Groups, ...] | None:
        """Return what was answered of a set, or guessed of it; null where nothing is known."""
        known = self.sets.get(apis)
        if known is None and self.guessed is not None:
            known = self.guessed.get(apis) or self._guess(apis)
            self.guessed[apis] = known
        return known

    def _guess(self, apis: ApiSet) -> tuple[Groups, ...]:
        """Guess the groups of a set by the finest answered part of it and the coarsest whole.

        Their mixture by the number of columns is near enough to find out which sets a search needs:
        it then asks for them in two to four rounds instead of some hundred. No guess is an answer.
        """
        wanted = set(apis)
        parts = [known for known in self.sets if wanted > set(known)]
        wholes = [known for known in self.sets if wanted < set(known)]
        part = max(parts, key=lambda known: (len(known), len(self.sets[known])))
        if not wholes:
            return self.sets[part]
        whole = min(wholes, key=lambda known: (len(known), -len(self.sets[known])))
        share = (len(apis) - len(part)) / (len(whole) - len(part))
        return tuple(
            one._replace(users=max(round(one.users * weight), 1))
            for known, weight in ((part, 1 - share), (whole, share))
            for one in self.sets[known]
        )

    @property
    def is_masked(self) -> bool:
        """Whether groups of few users are told as one sum."""
        return any(one.smallest < one.largest for groups in self.sets.values() for one in groups)

    def add(self, content: bytes, name: str) -> None:
        """Take an answer.

        Raises:
            InputError: It is no answer of a statement, or not of the same users as those before.
        """
        found: dict[ApiSet | None, list[Groups]] = {}
        for line in _lines(content, name):
            apis = _set_of(line["apis"], name)
            lacking, smallest, largest, users = (_whole(line[c], name) for c in _COLUMNS[1:])
            # Of a set there is no group of nobody: sizes divide below.
            if lacking > 1 or smallest > largest or (apis and not smallest):
                raise InputError(f"{name}: not an answer", hint=_HINT)
            found.setdefault(apis, []).append(Groups(bool(lacking), smallest, largest, users))
        everyone, nameless = found.pop((), []), found.pop(None, [])
        if len(everyone) != 1:
            raise InputError(f"{name}: not a whole answer: it has no line of `[]`", hint=_HINT)
        users, rows = everyone[0].users, everyone[0].largest
        # With a time a user may have several rows, of which one is in the groups.
        if rows > users and any(sum(one.users for one in g) > users for g in found.values()):
            raise InputError(
                f"{name}: {rows:,} rows of {users:,} users instead of one per user",
                hint="name the column of the time, whose latest row counts: --time COLUMN",
            )
        if not users:
            raise InputError(f"{name}: no row names a user")
        if self.users not in {None, users}:
            raise _changed(name)
        for apis, groups in found.items():
            if apis is None or sum(one.users for one in groups) != users:
                raise InputError(
                    f"{name}: not every user is counted in {', '.join(apis or ())}", hint=_HINT
                )
            if self.sets.setdefault(apis, tuple(groups)) != tuple(groups):
                raise _changed(name)
        # The line of `[]` says in this column whether rows count as users.
        self.are_rows |= everyone[0].lacking
        self.users, self.rows = users, (rows, nameless[0].users if nameless else 0)


def _changed(name: str) -> InputError:
    return InputError(
        f"{name} answers of other users than the answers before: the table has changed",
        hint="ask of a table that stays as it is, such as a copy, in a new folder",
    )


def read_answers(paths: Iterable[Path]) -> AnsweredSets:
    """Read answers from files; errors as of `AnsweredSets.add`, and where a file cannot be read."""
    answers = AnsweredSets()
    for path in paths:
        answers.add(read_bytes(path, "spectra", hint=_HINT), f"spectra {path}")
    return answers


def _lines(content: bytes, name: str) -> Iterator[dict[str, str]]:
    """Lines of a CSV by the names of its columns, whichever separator a console writes."""
    try:
        # Some consoles begin a file with a byte order mark.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8", hint=_HINT) from error
    # In the header alone: the sets of other lines hold commas.
    first = text.split("\n", 1)[0]
    separator = max(",;\t|", key=first.count)
    header: list[str] | None = None
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            names = [cell.strip().casefold() for cell in row]
            if {*_COLUMNS} <= {*names}:
                header = names  # once more where files were put one after the other
            elif header is None or (row and len(row) < len(header)):
                raise InputError(f"{name}: no answer with {', '.join(_COLUMNS)}", hint=_HINT)
            elif row:
                yield dict(zip(header, row, strict=False))
    except csv.Error as error:
        raise InputError(f"{name}: not CSV ({error})", hint=_HINT) from error
    if header is None:
        raise InputError(f"{name}: no answer with {', '.join(_COLUMNS)}", hint=_HINT)


def _set_of(text: str, name: str) -> ApiSet | None:
    """Set of a line; null for the line of rows that name no user."""
    try:
        apis = json.loads(text)
    except (ValueError, RecursionError):
        apis = 0
    if apis is None:
        return None
    if not isinstance(apis, list) or not all(isinstance(api, str) and api for api in apis):
        raise InputError(f"{name}: a line does not say of which columns it is", hint=_HINT)
    return tuple(sorted(set(apis)))


def _whole(text: str, name: str) -> int:
    try:
        # Not `int`: a console may write 5.000. Not `float`: 2**53 + 1 would be 2**53.
        number = Decimal(text.strip())
        if 0 <= number <= _MOST and number == int(number):
            return int(number)
    except (InvalidOperation, ValueError, OverflowError):
        pass
    raise InputError(f"{name}: a number of users is not a whole number", hint=_HINT)


def _spectrum(groups: Iterable[Groups], side: Side, *, absent_alone: bool) -> CountSpectrum:
    """Return a spectrum in which no user is in a larger group than in truth; or in a smaller one.

    Users of groups of at most so many fill groups of that size, and one that is larger.
    """
    members: Counter[int] = Counter()
    for one in groups:
        # Whoever lacks a value may have any: at worst each has one of their own.
        if one.lacking and absent_alone:
            members[1] += one.users
        else:
            members[one.smallest if side == "most" else one.largest] += one.users
    found: Counter[int] = Counter()
    for size, users in members.items():
        whole, rest = divmod(users, size)
        # The rest joins one whole group, as no group has fewer users than `size`.
        found[size] += whole - bool(whole and rest)
        if rest:
            found[(size if whole else 0) + rest] += 1
    return CountSpectrum.from_mapping({size: number for size, number in found.items() if number})


class AnsweredSpectra(SpectrumQueries):
    """Spectra that were answered; of further sets `ask` adds the answers, or raises what to do."""

    def __init__(
        self, apis: Iterable[str], answers: AnsweredSets, ask: Callable[[Sequence[ApiSet]], None]
    ) -> None:
        super().__init__(apis)
        self._answers, self._ask = answers, ask
        self._side: Side = "most"

    @property
    def users(self) -> int:
        """Number of users; 0 where nothing was answered."""
        return self._answers.users or 0

    @property
    def are_rows(self) -> bool:
        """Whether the users are rows of a table."""
        return self._answers.are_rows

    @property
    def least(self) -> AnsweredSpectra | None:
        """Spectra in which no user is in a smaller group than in truth, where groups are masked."""
        if not self._answers.is_masked:
            return None
        # The answers are shared: what one side asks for the other knows as well.
        other = copy.copy(self)
        other._side = "least"  # noqa: SLF001 -- its own class
        return other

    def disclosed(self, apis: Sequence[str]) -> DisclosedSpectra | None:
        """Return what is told of a set where groups are masked; null where all are known.

        Users in groups of few may be in groups of any smaller size: their number is told.
        """
        [groups] = self.groups([apis])
        exact = [one for one in groups if one.smallest == one.largest]
        masked = [one for one in groups if one.smallest < one.largest]
        if not masked:
            return None
        few = sum(one.users for one in masked if one.smallest == 1)
        whole = [one for one in masked if one.smallest > 1]  # it has the rest of less than a mask
        known = Counter[int]()
        for one in exact:
            known[one.largest] += one.users // one.largest
        # Least exposure: all masked users count as of the largest group, which is itself masked
        # where they are fewer than the mask.
        if whole or not known:
            known[sum(one.users for one in masked)] += 1
        else:
            most = max(known)
            known[most] -= 1
            known[most + few] += 1
        least = CountSpectrum.from_mapping({size: n for size, n in known.items() if n})
        return DisclosedSpectra(self.spectrum(apis), least, suppressed=True, hidden=few + 1)

    def ranges(self, apis: Sequence[str]) -> list[tuple[int, int, int]]:
        """Users (last) in groups of so few to so many."""
        [groups] = self.groups([apis])
        found = Counter[tuple[int, int]]()
        for one in groups:
            alone = one.lacking and self._absent_alone
            found[(1, 1) if alone else (one.smallest, one.largest)] += one.users
        return sorted((*sizes, users) for sizes, users in found.items())

    def groups(self, sets: Iterable[Sequence[str]]) -> list[tuple[Groups, ...]]:
        """Return what was answered of some sets."""
        wanted = [tuple(sorted(set(apis))) for apis in sets]
        for apis in wanted:
            for api in apis:
                if api not in self.apis:
                    raise UnknownNameError("API", api, self.apis)
        users = self.users
        everyone = (Groups(lacking=False, smallest=users, largest=users, users=users),)
        found = {apis: self._answers.of(apis) if apis else everyone for apis in wanted}
        unknown = [apis for apis, groups in found.items() if groups is None]
        if unknown:
            self._ask(unknown)
        return [found[apis] or self._answers.sets[apis] for apis in wanted]

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`."""
        return self.spectra([apis])[0]

    def spectra(self, sets: Iterable[Sequence[str]]) -> list[CountSpectrum]:
        """Count spectra of the sets, in their order; asked for at once where they are not known."""
        return [
            _spectrum(groups, self._side, absent_alone=self._absent_alone)
            for groups in self.groups(sets)
        ]

    def users_of_apis(self) -> Mapping[str, int]:
        """Count for each API the users with an observation of it."""
        found = self.groups([[api] for api in self.apis])
        return {
            api: sum(one.users for one in groups if not one.lacking)
            for api, groups in zip(self.apis, found, strict=True)
        }

    def users_of_codes(self, apis: Sequence[str]) -> dict[str, dict[int, int]]:
        """Count for each of some APIs the users with each value, whatever it is, and without."""
        found = {}
        for api, groups in zip(apis, self.groups([[api] for api in apis]), strict=True):
            found[api] = {ABSENT: sum(one.users for one in groups if one.lacking)}
            if having := [one for one in groups if not one.lacking]:
                spectrum = _spectrum(having, self._side, absent_alone=False)
                sizes = np.repeat(spectrum.counts, spectrum.values).tolist()
                found[api] |= dict(enumerate(sizes, ABSENT + 1))
        return found

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Refuse: the answers do not say which group is whose."""
        del given, apis
        raise _refusal("--given")

    def searched_and_rest(self, users: int, seed: int) -> NoReturn:
        """Refuse: nobody can be drawn."""
        del users, seed
        raise _refusal("--search-users")


def _refusal(what: str) -> InputError:
    return InputError(
        f"{what}: not with --spectra, which holds no rows of users",
        hint="use a database file or a snapshot",
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AnsweredSnapshot(Snapshot):
    """Users of whom only spectra are known."""

    spectra: AnsweredSpectra
    said: Mapping[str, str]
    units: Sequence[Unit | None]
    digest: str
    key: str
    values_are_digested: bool = True  # nobody sees them

    @classmethod
    def of(
        cls, spectra: AnsweredSpectra, *, said: Mapping[str, str], key: str, unit: Unit
    ) -> AnsweredSnapshot:
        """Take what was answered for users, with the key of the digests that leave, if any."""
        # Every answer has each column alone.
        alone = spectra.groups([[api] for api in spectra.apis])
        content = json.dumps([spectra.users, list(zip(spectra.apis, alone, strict=True))])
        digest = hashlib.sha256(content.encode()).hexdigest()
        return cls(
            spectra=spectra,
            said=said,
            units=("row" if spectra.are_rows else unit,),
            digest=digest,
            # Without a key of the user, one by the answers: the same at each command.
            key=key or hashlib.sha256(f"spectra {digest}".encode()).hexdigest(),
        )

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs, sorted."""
        return self.spectra.apis

    @property
    def users(self) -> int:
        """Number of rows."""
        return self.spectra.users

    def in_memory(self, apis: int) -> bool:
        """Return false: no rows are here."""
        del apis
        return False

    def codes(self, apis: Sequence[str]) -> list[NDArray[np.unsignedinteger[Any]]]:
        """Refuse: no rows are here."""
        del apis
        raise UndecidableError(
            "only counts of these users are here, and no rows",
            hint="use a database file or a snapshot",
        )

    def values(self, api: str) -> Mapping[int, tuple[str, str | None]]:
        """Numbers in place of values."""
        return {code: ("value", str(code)) for code in self.spectra.users_of_codes([api])[api]}

    def users_of_apis(self) -> Mapping[str, int]:
        """Count for each API the users with an observation of it."""
        return self.spectra.users_of_apis()

    def browser_groups(self) -> BrowserGroups:
        """Return all users as those of an unknown browser."""
        return BrowserGroups(
            family=np.array([UNKNOWN], dtype=np.int8),
            version=np.zeros(1, dtype=np.int64),
            traits=np.zeros(1, dtype=np.int64),
            users=np.array([self.users]),
        )

    def queries(self, recoding: Recoding, present: Sequence[str]) -> AnsweredSpectra:
        """Spectra as they were answered."""
        if present:
            raise _refusal("--missing drop")
        if recoding.changes:
            raise _refusal("preprocessing of values")
        return self.spectra


def unanswered(sets: Sequence[ApiSet]) -> NoReturn:
    """Say that sets are lacking, and how to ask for them.

    Raises:
        UndecidableError: Always.
    """
    shown = excerpt("; ".join(", ".join(apis) for apis in sets))
    raise UndecidableError(
        f"the answers lack {len(sets):,} sets of columns ({shown})",
        hint="ask for all of them by `fpmonitor scale sql --candidates ...`, of more than 8 "
        "columns by rounds in a folder, --to FOLDER",
    )
