"""The observed users of one question: spectra of any API set, whole and thinned, and limits."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fpmonitor.disclosure import Audience, ToldSpectra, told_spectra
from fpmonitor.errors import InputError
from fpmonitor.estimate.certificate import certificate
from fpmonitor.estimate.thinning import dropped_positions, seed_of, thinned_spectrum
from fpmonitor.population.memory import CodeTable, MemorySource, is_dense, rank_keys
from fpmonitor.population.snapshot import CohortSpectra
from fpmonitor.spectrum import CountSpectrum, spectra_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from fpmonitor.estimate.certificate import Certificate
    from fpmonitor.population.snapshot import SpectrumQueries
    from fpmonitor.question import Question

    Thinned = tuple[CountSpectrum, CountSpectrum | None]

_HALF = 32
_LOWER = (1 << _HALF) - 1


class ThinnedSource(Protocol):
    """Users of whom a thinning keeps some: spectra of both at once."""

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""

    @property
    def users(self) -> int:
        """Users before the thinning."""

    def spectra(self, sets: Iterable[Sequence[str]]) -> list[Thinned]:
        """Count spectra of all users and of those that are kept (None: nobody is)."""

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of `apis` within each group of equal values of `given`."""


class CertifiedSample:
    """Users, and what is asked of them: what is told of their spectra, and limits.

    Parameters
    ----------
    question
        What is asked; its population is named.
    limits
        Certificate for this number of users and the question.
    source
        Spectra of the users, and of those that the thinning keeps.
    digest, seal
        Digest of the data, and the same as it may leave.
    audience
        Whom the numbers are for.
    masked
        APIs whose volatile values the view masks: see `Population.masked`.
    """

    def __init__(
        self,
        question: Question,
        limits: Certificate,
        source: ThinnedSource,
        *,
        digest: str,
        seal: str,
        audience: Audience,
        masked: Sequence[str] = (),
    ) -> None:
        self.question = question
        self.certificate = limits
        self.source = source
        self.digest = digest
        self.seal = seal
        self.audience = audience
        self.masked = frozenset(masked)
        self._known: dict[tuple[str, ...], Thinned] = {}

    @property
    def users(self) -> int:
        """Observed users, `m`."""
        return self.source.users

    def ask(self, sets: Iterable[Sequence[str]]) -> None:
        """Ask for the spectra of many sets together, which are then known."""
        unknown = {tuple(sorted(set(apis))): None for apis in sets}.keys() - self._known.keys()
        wanted = sorted(unknown)
        self._known |= dict(zip(wanted, self.source.spectra(wanted), strict=True))

    def told(self, apis: Sequence[str]) -> ToldSpectra:
        """Return what is told of the count spectrum of a set.

        The empty set has one value, shared by all: that tells nothing of them.
        """
        if not apis:
            everybody = self._spectra(())[0]
            return ToldSpectra(everybody, everybody, suppressed=False)
        return told_spectra(self._spectra(apis)[0], self.question.k, self.audience)

    def limits(self, apis: Sequence[str]) -> tuple[float, float]:
        """Lower and upper limit of the exposure of a set; [0, 1] when the thinning keeps nobody.

        Limits of what is told otherwise than it is are those of a thinning of what is told: they
        are wider, and hold.
        """
        told = self.told(apis)
        if not told.suppressed:
            return self._limits(self._spectra(apis)[1])
        return self.limits_of(told)

    def limits_of(self, told: ToldSpectra) -> tuple[float, float]:
        """Limits from what is told alone, thinned by a draw that follows from it."""
        drawn = [self._limits(self.thinned(spectrum)) for spectrum in (told.least, told.most)]
        # The lower limit need not grow with the exposure.
        return min(low for low, _ in drawn), max(high for _, high in drawn)

    def thinned(self, spectrum: CountSpectrum) -> CountSpectrum | None:
        """Thin what is told of all users or of a cohort, by a draw that follows from it alone."""
        return thinned_spectrum(
            spectrum,
            mean=self.certificate.mean * spectrum.users / self.users,
            most=min(self.certificate.users, spectrum.users),
            seed=self._seed("told", digest_of(spectrum)),
        )

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of `apis` within each group of equal values of `given`, as they are."""
        return self.source.cohorts(given, apis)

    def rng(self, purpose: str, apis: Sequence[str]) -> np.random.Generator:
        """Random numbers that follow from question and data: nobody can draw again."""
        if self.audience is Audience.OWNER:
            return np.random.default_rng(self._seed(purpose, self.digest))
        return np.random.default_rng(self._seed(purpose, digest_of(self.told(apis).most)))

    def _seed(self, purpose: str, data: str) -> int:
        question = self.question
        asked = json.dumps([question.k, question.users, question.delta])
        return seed_of(purpose, asked, data)

    def _limits(self, thinned: CountSpectrum | None) -> tuple[float, float]:
        if thinned is None:
            return 0.0, 1.0
        return self.certificate.lower(thinned), self.certificate.upper(thinned)

    def _spectra(self, apis: Sequence[str]) -> Thinned:
        self.ask([apis])
        return self._known[tuple(sorted(set(apis)))]


def digest_of(*spectra: CountSpectrum) -> str:
    """Digest of count spectra."""
    digest = hashlib.blake2b(digest_size=16)
    for spectrum in spectra:
        for array in (spectrum.counts, spectrum.values):
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()


def thinning_seed(question: Question, digest: str) -> int:
    """Seed of the thinning of some users for a question."""
    return seed_of(json.dumps([question.k, question.users, question.delta]), digest)


@functools.lru_cache(maxsize=16)
def certificate_of(users: int, k: int, population: int, delta: float) -> Certificate:
    """Make a certificate once for all questions of a program: it takes a second or more."""
    return certificate(users=users, k=k, population=population, delta=delta)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ThinnedRows:
    """Users in memory, and which of them a thinning keeps: a `ThinnedSource`.

    Attributes
    ----------
    apis
        All that may be asked for, sorted.
    users
        Users before the thinning.
    table
        Rows of users; the weight of each holds its users in the upper 32 bits, and in the lower 32
        those that the thinning keeps.
    codes
        API -> codes as the snapshot has them, without repetition and increasing: those of the table
        are their positions.
    """

    apis: tuple[str, ...]
    users: int
    table: CodeTable
    codes: Mapping[str, NDArray[np.integer[Any]]]

    @classmethod
    def of(
        cls,
        columns: Mapping[str, NDArray[np.integer[Any]]],
        dropped: NDArray[np.int64],
        *,
        given: Sequence[str] = (),
    ) -> ThinnedRows:
        """Take one user a row.

        Parameters
        ----------
        columns
            API -> codes.
        dropped
            Positions of the rows that the thinning leaves out.
        given
            APIs that may make cohorts.

        Raises
        ------
        InputError
            There are 2^31 users or more.
        """
        source = MemorySource(list(columns), list(columns.values()))
        if source.users >= 1 << (_HALF - 1):
            raise InputError(f"memory source: holds fewer than 2^{_HALF - 1} users here")
        weights = np.full(source.users, 1 << _HALF | 1, dtype=np.int64)
        weights[dropped] = 1 << _HALF
        table = CodeTable(source.table.columns, source.table.cardinalities, weights)
        codes = {api: np.unique(columns[api]) for api in given}
        return cls(apis=source.apis, users=source.users, table=table, codes=codes)

    def merged(self) -> ThinnedRows:
        """Let users that agree on all APIs share a row."""
        keys, size = self.table.keys(range(len(self.apis)))
        ranks, groups = rank_keys(keys, size)
        row = np.empty(groups, dtype=np.intp)
        row[ranks] = np.arange(len(ranks))
        users, kept = self._counts(ranks, groups)
        table = CodeTable(
            tuple(column[row] for column in self.table.columns),
            self.table.cardinalities,
            users << _HALF | kept,
        )
        return ThinnedRows(apis=self.apis, users=self.users, table=table, codes=self.codes)

    def spectra(self, sets: Iterable[Sequence[str]]) -> list[Thinned]:
        """Count spectra of all users and of those that are kept."""
        return [self._spectra(apis) for apis in sets]

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of `apis` within each group of equal values of `given`, in order of the codes."""
        places = list(dict.fromkeys(self.apis.index(api) for api in (*given, *apis)))
        ranks, groups = rank_keys(*self.table.keys(places))
        row = np.empty(groups, dtype=np.intp)
        row[ranks] = np.arange(len(ranks))
        cohort = self.table.keys(places[: len(given)])[0][row]
        users, kept = self._counts(ranks, groups)
        starts = np.flatnonzero(np.diff(cohort, prepend=-1))
        parts = [slice(a, b) for a, b in zip(starts, [*starts[1:], groups], strict=True)]
        return [
            CohortSpectra(
                codes=tuple(self._code(api, row[part.start]) for api in given),
                spectrum=CountSpectrum.from_counts(users[part]),
                kept=CountSpectrum.from_counts(kept[part]) if kept[part].any() else None,
            )
            for part in parts
        ]

    def _code(self, api: str, row: np.intp) -> int:
        return int(self.codes[api][self.table.columns[self.apis.index(api)][row]])

    def _counts(
        self, groups: NDArray[np.integer[Any]], size: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Users and kept users of each group below `size`."""
        users, kept = (
            np.bincount(groups, weights, minlength=size).astype(np.int64)
            for weights in (self.table.weights >> _HALF, self.table.weights & _LOWER)
        )
        return users, kept

    def _spectra(self, apis: Sequence[str]) -> Thinned:
        places = [self.apis.index(api) for api in sorted(set(apis))]
        size = 1
        for place in places:
            size *= self.table.cardinalities[place]
        if is_dense(size, len(self.table.weights)):
            full, thinned = self._counts(*self.table.keys(places))
        else:
            totals = self.table.totals(places)
            full, thinned = totals >> _HALF, totals & _LOWER
        return _spectrum(full), _spectrum(thinned) if thinned.any() else None


def _spectrum(sizes: NDArray[np.int64]) -> CountSpectrum:
    values = np.bincount(sizes)
    counts = np.flatnonzero(values[1:]) + 1
    return CountSpectrum(counts, values[counts])


def thinned_rows(
    columns: Mapping[str, NDArray[np.integer[Any]]],
    hashes: NDArray[np.uint64],
    *,
    mean: float,
    seed: int,
    given: Sequence[str] = (),
) -> ThinnedRows:
    """Thin rows in memory."""
    dropped = dropped_positions(hashes, mean=mean, seed=seed)
    return ThinnedRows.of(columns, dropped, given=given)


class ThinnedQueries:
    """Users whose rows are not in memory, and which of them a thinning keeps: a `ThinnedSource`."""

    def __init__(self, full: SpectrumQueries, *, mean: float, seed: int) -> None:
        self._full = full
        self._kept = full.thinned(mean=mean, seed=seed)

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""
        return self._full.apis

    @property
    def users(self) -> int:
        """Users before the thinning."""
        return self._full.users

    def spectra(self, sets: Iterable[Sequence[str]]) -> list[Thinned]:
        """Count spectra of all users and of those that are kept."""
        wanted = list(sets)
        full = spectra_of(self._full, wanted)
        if not self._kept.users:
            return [(spectrum, None) for spectrum in full]
        return list(zip(full, spectra_of(self._kept, wanted), strict=True))

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of `apis` within each group of equal values of `given`."""
        return self._kept.cohorts(given, apis)
