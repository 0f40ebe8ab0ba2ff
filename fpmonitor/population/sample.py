"""The observed users of one question: what is told of the spectra of any API set, and limits."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.disclosure import Audience, disclosed_spectra
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import Drawing
from fpmonitor.estimate.mixing import seed_of
from fpmonitor.estimate.realised import realised_limits
from fpmonitor.spectrum import CountSpectrum, DisclosedSpectra

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from fpmonitor.estimate.limits import Limits
    from fpmonitor.policy import Drawn, SampleModel
    from fpmonitor.population.memory import MemorySource
    from fpmonitor.population.snapshot import SpectrumQueries
    from fpmonitor.question import Question
    from fpmonitor.spectrum import CohortSpectra


@dataclass(eq=False)
class CertifiedSample:
    """Users, and what is asked of them: what is told of their spectra, and limits."""

    question: Question  # Its population is named.
    source: MemorySource | SpectrumQueries  # Spectra of the users.
    _: KW_ONLY
    digest: str  # Of the data.
    seal: str  # The same as it may leave.
    audience: Audience  # Whom the numbers are for.
    # APIs whose volatile values the view masks: see `Population.masked`.
    masked: Collection[str] = frozenset()
    # APIs whose values a view masks unless data contradict it. That splits groups, which must not
    # lower the upper limit of a set that holds one.
    growing: frozenset[str] = frozenset()
    universe: int | None = None  # APIs that may be chosen after looking; null for none.
    first: int | None = None  # As of `Limits`.
    drawn: Drawn | None = None  # Null where all users count.
    # API -> codes as the snapshot has them, without repetition and increasing, where those of the
    # source are their positions. Of APIs that may make cohorts.
    codes: Mapping[str, NDArray[np.integer[Any]]] = field(default_factory=dict)
    _known: dict[tuple[str, ...], CountSpectrum] = field(default_factory=dict, init=False)

    @property
    def users(self) -> int:
        """Observed users, `m`."""
        return self.source.users

    def ask(self, sets: Iterable[Sequence[str]]) -> None:
        """Ask for the spectra of many sets together, which are then known."""
        unknown = {tuple(sorted(set(apis))): None for apis in sets}.keys() - self._known.keys()
        wanted = sorted(unknown)
        self._known |= dict(zip(wanted, self.source.spectra(wanted), strict=True))

    def asking(self, question: Question) -> CertifiedSample:
        """Return the same users and what is known of them, with another k, population or delta."""
        other = copy.copy(self)
        # Which look it is does not follow from what is asked.
        other.question = replace(question, sample=self.question.sample).among(self.users)
        return other

    def know(self, spectra: Mapping[tuple[str, ...], CountSpectrum]) -> None:
        """Take the spectra of some sets, sorted, that were counted elsewhere."""
        self._known |= spectra

    def disclosed(self, apis: Sequence[str]) -> DisclosedSpectra:
        """Return what is told of the count spectrum of a set.

        The empty set has one value, shared by all: that tells nothing of them.
        """
        spectrum = self._spectrum(apis)
        if not apis:
            return DisclosedSpectra.all_of(spectrum)
        spectra = self.source.disclosed(apis)
        return spectra or disclosed_spectra(spectrum, self.question.k, self.audience)

    def limits(self, apis: Sequence[str], delta: float | None = None) -> tuple[float, float]:
        """Lower and upper limit of the exposure of a set, from what is told of it alone.

        At another `delta` than that of the question where one is given.
        """
        spectra = self.disclosed(apis)
        return self.certificate(apis, delta).of(
            spectra.least, len(set(apis)), hidden=spectra.hidden
        )

    def realised(self, apis: Sequence[str]) -> tuple[float, float]:
        """Limits of the share in one population, which varies about the average."""
        # Certificate 12: an average up to its limit, and then a population of such an average.
        half = self.question.delta / 2
        return realised_limits(
            *self.limits(apis, half),
            k=self.question.k,
            population=self.question.users,
            delta=half,
        )

    def linked(self, apis: Sequence[str]) -> tuple[float, float]:
        """Lower and upper limit of the share of n users whose visits a set can link: `linking`."""
        spectra = self.disclosed(apis)
        limits = self.certificate(apis, linked=True)
        return limits.of(spectra.least, len(set(apis)), hidden=spectra.hidden)

    def certificate(
        self,
        apis: Sequence[str],
        delta: float | None = None,
        *,
        linked: bool = False,
        users: int | None = None,
    ) -> Limits:
        """Limits for these users and the question, of a set, or of a cohort with a set.

        Where only some of them count, of so many.
        """
        return exposure_limits(
            users=self.users if users is None else users,
            k=None if linked else self.question.k,
            population=self.question.users,
            delta=self.question.delta if delta is None else delta,
            universe=self.universe,
            growing=not self.growing.isdisjoint(apis),
            drawing=Drawing.of(self.question.sample, self.users, self.first),
        )

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of `apis` within each group of equal values of `given`, as they are."""
        return [
            replace(
                cohort,
                codes=tuple(
                    int(self.codes[api][code]) if api in self.codes else code
                    for api, code in zip(given, cohort.codes, strict=True)
                ),
            )
            for cohort in self.source.cohorts(given, apis)
        ]

    def rng(self, purpose: str, apis: Sequence[str]) -> np.random.Generator:
        """Random numbers that follow from the data, not the question: nobody can draw again."""
        data = (
            self.digest
            if self.audience is Audience.OWNER
            else spectra_digest(self.disclosed(apis).most)
        )
        return np.random.default_rng(seed_of(purpose, data))

    def _spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        self.ask([apis])
        return self._known[tuple(sorted(set(apis)))]


def spectra_digest(*spectra: CountSpectrum) -> str:
    """Digest of count spectra."""
    return digest_of_arrays(part for one in spectra for part in (one.counts, one.values))


def digest_of_arrays(arrays: Iterable[NDArray[np.int64]]) -> str:
    """Digest of numbers from which draws follow."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        # One order of bytes, so that all machines draw alike.
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()


def sample_members(sample: SampleModel, drawn: Drawn | None) -> dict[str, Any]:
    """Return what documents tell of how users may differ from the population, where they may."""
    members: dict[str, Any] = {}
    if sample.options:
        members["sample"] = replace(sample, look=None).to_json()
    if drawn is not None:
        members["observed"] = drawn.observed
        if drawn.binding is not None:
            members["binding_stratum"] = drawn.binding
            members["unobserved_share"] = drawn.unobserved
    return members
