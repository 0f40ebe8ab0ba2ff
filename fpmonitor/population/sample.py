"""The observed users of one question: spectra of any API set, whole and thinned, and limits."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fpmonitor.estimate.certificate import certificate
from fpmonitor.estimate.thinning import dropped_positions, seed_of
from fpmonitor.population.duckdb import DuckDBSource
from fpmonitor.spectrum import SpectrumSource
from fpmonitor.store.snapshot import read_user_hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.estimate.certificate import Certificate
    from fpmonitor.population.duckdb import CohortSpectra
    from fpmonitor.store.database import Database
    from fpmonitor.store.snapshot import Snapshot


class CohortSource(SpectrumSource, Protocol):
    """A source of users that a thinning keeps, which also divides all users into cohorts."""

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of the tuples of `apis` within each cohort; as of `DuckDBSource.cohorts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedSample:
    """Users of a snapshot, and what is asked of them.

    Attributes
    ----------
    k, population
        Anonymity threshold and `n`, users.
    certificate
        For this number of users, `k`, `population` and the tolerated probability of error.
    full, thinned
        Sources of the spectra of all users, and of those that the thinning keeps.
    digest
        Digest of the data.
    """

    k: int
    population: int
    certificate: Certificate
    full: SpectrumSource
    thinned: CohortSource
    digest: str

    @property
    def users(self) -> int:
        """Observed users, `m`."""
        return self.full.users

    @property
    def delta(self) -> float:
        """Tolerated probability of error of each limit."""
        return self.certificate.delta

    def limits(self, apis: Sequence[str]) -> tuple[float, float]:
        """Lower and upper limit of the exposure of a set; [0, 1] when the thinning keeps nobody."""
        if self.thinned.users == 0:
            return 0.0, 1.0
        spectrum = self.thinned.spectrum(apis)
        return self.certificate.lower(spectrum), self.certificate.upper(spectrum)

    def rng(self, purpose: str) -> np.random.Generator:
        """Random numbers that follow from question and data: nobody can draw again."""
        question = json.dumps([self.k, self.population, self.delta])
        return np.random.default_rng(seed_of(purpose, question, self.digest))


def take_sample(
    database: Database, snapshot: Snapshot, *, k: int, population: int, delta: float
) -> CertifiedSample:
    """Thin the users of a snapshot for one question.

    Raises
    ------
    PolicyError
        A number is out of its range.
    """
    limits, dropped = thin_users(database, snapshot, k=k, population=population, delta=delta)
    return CertifiedSample(
        k=k,
        population=population,
        certificate=limits,
        full=DuckDBSource(database, snapshot),
        thinned=DuckDBSource(database, snapshot, dropped),
        digest=snapshot.digest,
    )


def thin_users(
    database: Database, snapshot: Snapshot, *, k: int, population: int, delta: float
) -> tuple[Certificate, NDArray[np.int64]]:
    """Certificate for one question, and the positions of the users that its thinning leaves out.

    Raises
    ------
    PolicyError
        A number is out of its range.
    """
    limits = certificate_of(snapshot.users, k, population, delta)
    dropped = dropped_positions(
        read_user_hashes(database, snapshot),
        mean=limits.mean,
        seed=seed_of(json.dumps([k, population, delta]), snapshot.digest),
    )
    return limits, dropped


@functools.lru_cache(maxsize=16)
def certificate_of(users: int, k: int, population: int, delta: float) -> Certificate:
    """Make a certificate once for all questions of a program: it takes a second or more."""
    return certificate(users=users, k=k, population=population, delta=delta)
