"""The exposure of one API set from its group sizes alone, without a database."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from fpmonitor.estimate.exposure import empirical_exposure, plug_in_exposure, unbiased_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.question import Question
from fpmonitor.results import Result
from fpmonitor.spectrum import CountSpectrum


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsExposure(Result):
    """Exposure of an API set, estimated from its group sizes.

    Attributes:
        users, values: Observed users, and distinct values among them.
        k, population, delta: The question: anonymity threshold, users that sites will see,
            tolerated probability that a limit fails.
        empirical: Share of the observed users in groups of fewer than `k`.
        plug_in: Exposure of the population if the observed shares were the probabilities.
        unbiased: Unbiased estimate; None for a population above the number of observed users.
        lower, upper: Confidence limits of the exposure, each wrong with probability at most
            `delta`.
    """

    users: int
    values: int
    k: int
    population: int
    delta: float
    empirical: float
    plug_in: float
    unbiased: float | None
    lower: float
    upper: float


def exposure(
    counts: ArrayLike, *, k: int = 10, population: int | None = None, delta: float = 0.05
) -> CountsExposure:
    """Estimate the share of users who are in groups of fewer than `k`, with confidence limits.

    The observed users must be independent draws from the population. The same counts in any order
    give the same limits.

    Args:
        counts: Group sizes: for each distinct value, the number of observed users who have it.
        k: A user is exposed in a group of fewer than `k` users.
        population: Users that sites will see; by default as many as were observed.
        delta: Tolerated probability that a limit fails, in (0, 1).

    Examples:
        >>> found = exposure([400, 250, 90, 3, 1, 1], k=10, population=745)
        >>> round(found.empirical, 4), round(found.unbiased, 4)
        (0.0067, 0.0067)
        >>> found.lower <= found.unbiased <= found.upper
        True
    """
    spectrum = CountSpectrum.from_counts(counts)
    question = Question(k, population, delta).among(spectrum.users)
    k, population = question.k, question.users
    certificate = exposure_limits(users=spectrum.users, k=k, population=population, delta=delta)
    lower, upper = certificate.of(spectrum)
    return CountsExposure(
        users=spectrum.users,
        values=spectrum.support,
        k=k,
        population=population,
        delta=delta,
        empirical=empirical_exposure(spectrum, k),
        plug_in=plug_in_exposure(spectrum, k=k, population=population),
        unbiased=unbiased_exposure(spectrum, k=k, population=population),
        lower=lower,
        upper=upper,
    )
