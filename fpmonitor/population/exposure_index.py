"""Exposure of any API set at once: the users of one question, held in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.estimate.exposure import empirical_exposure, unbiased_exposure
from fpmonitor.policy import Drawn
from fpmonitor.population.sample import CertifiedSample
from fpmonitor.question import Question
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.vocabulary import columns_of


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedExposure:
    """Exposure of one API set, as shares.

    Attributes:
        apis: The set, sorted.
        empirical: Share of the observed users in groups smaller than k.
        unbiased: Estimate for the population; null for one above the number of users.
        lower, upper: Limits of the certificate, each wrong with probability at most delta.
        suppressed: Whether fewer than k users are exposed, which others are told as k - 1 users.
        masked: APIs of the set whose volatile values are masked.
    """

    apis: tuple[str, ...]
    empirical: float
    unbiased: float | None
    lower: float
    upper: float
    suppressed: bool
    masked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ExposureIndex:
    """Users in memory, merged where they agree on all APIs, and one question.

    Attributes:
        sample: The users; its source holds as few rows as there are different users.
        means: See `Population.means`.
    """

    sample: CertifiedSample
    means: Mapping[str, str] = field(default_factory=dict)

    @property
    def apis(self) -> tuple[str, ...]:
        """All that can be asked for, sorted."""
        return self.sample.source.apis

    @property
    def k(self) -> int:
        """Anonymity threshold, users."""
        return self.sample.question.k

    @property
    def population(self) -> int:
        """`n`, users."""
        return self.sample.question.users

    @property
    def delta(self) -> float:
        """Tolerated probability of error of each limit."""
        return self.sample.question.delta

    @property
    def users(self) -> int:
        """Observed users, `m`."""
        return self.sample.users

    @property
    def drawn(self) -> Drawn | None:
        """Of how many the users were drawn by shares; None where all count."""
        return self.sample.drawn

    @property
    def seal(self) -> str:
        """Digest of the data, as decisions note it."""
        return self.sample.seal

    def asking(self, question: Question) -> ExposureIndex:
        """Return the same users with another k, population or delta.

        For their owner, who is told of the same users whatever k is, and where none were drawn.
        """
        return replace(self, sample=self.sample.asking(question))

    def counted(self, apis: Sequence[str]) -> tuple[tuple[str, ...], CountSpectrum]:
        """Return what the log calls some APIs, and what is told of their counts; no limits.

        Raises:
            InputError: No API is named.
        """
        wanted = self.named(apis)
        if not wanted:
            raise InputError("apis: name at least one")
        return wanted, self.sample.disclosed(wanted).most

    def explore(self, apis: Sequence[str]) -> IndexedExposure:
        """Exposure of one set; the numbers are those of `answers.exposure`.

        APIs are named as in the log or as in the vocabulary.
        """
        wanted, spectrum = self.counted(apis)
        lower, upper = self.sample.limits(wanted)
        return IndexedExposure(
            apis=wanted,
            empirical=empirical_exposure(spectrum, self.k),
            unbiased=unbiased_exposure(spectrum, k=self.k, population=self.population),
            lower=lower,
            upper=upper,
            suppressed=self.sample.disclosed(wanted).suppressed,
            masked=tuple(api for api in wanted if api in self.sample.masked),
        )

    def named(self, apis: Iterable[str]) -> tuple[str, ...]:
        """Return what the log calls some APIs, sorted.

        Raises:
            UnknownNameError: One was never observed, or cannot be asked for here.
        """
        found: set[str] = set()
        for api in apis:
            columns = {api} if api in self.apis else {*columns_of(api, self.means)}
            if not columns or not columns <= set(self.apis):
                raise UnknownNameError("API", api, self.apis)
            found |= columns
        return tuple(sorted(found))
