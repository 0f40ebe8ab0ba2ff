"""API sets ranked by entropy and by exposure, and where the two orders disagree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fpmonitor.answers.sets import sets_up_to, sorted_sets
from fpmonitor.disclosure import check_users, disclosed_spectra, smallest_told_group
from fpmonitor.errors import InputError
from fpmonitor.estimate.entropy import entropy_bits, misleading_factors, naive_group_size
from fpmonitor.estimate.exposure import unbiased_exposure
from fpmonitor.policy import NO_DEPARTURE, PLAIN_DRAWS, Drawn, SampleModel
from fpmonitor.population.population import Population
from fpmonitor.population.sample import sample_members
from fpmonitor.question import Question
from fpmonitor.results import Result
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.unit import Unit, told_unit

Basis = Literal["unbiased", "upper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSet:
    """An API set with its places in both orders; place 1 tells users apart best.

    Attributes:
        apis: The set.
        values: Distinct values observed.
        entropy_bits: Plug-in entropy, bits.
        exposure: Statistical exposure, a share of the users, see `Ranking.basis`.
        place_by_entropy, place_by_exposure: Sets that precede it, plus one; equal sets share a
            place.
        places_apart: Place by entropy minus place by exposure: above 0, the set exposes more users
            than its entropy suggests.
        naive_group_size: `n / 2^H`.
        misleading_factor, misleading_factor_worst_5, misleading_factor_worst_1: How many times
            larger that is than the group of the median user, and than the largest group among the 5
            % and the 1 % of the users in the smallest groups; see `ExposureReport`.
    """

    apis: tuple[str, ...]
    values: int
    entropy_bits: float
    exposure: float
    place_by_entropy: int
    place_by_exposure: int
    places_apart: int
    naive_group_size: float
    misleading_factor: float
    misleading_factor_worst_5: float
    misleading_factor_worst_1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Result):
    """API sets in the order of their exposure, and how far the order of entropy differs.

    Attributes:
        k, population, users, delta: The question, and the observed users.
        basis: What `exposure` is: the unbiased estimate, or for a population above the observed
            users the upper limit of the certificate; the limits of all sets hold together, so that
            the best may be chosen by them.
        pairs, disagreeing_pairs: Pairs of sets that differ in entropy and in exposure, and those of
            them that the two order differently.
        sets: The most exposing first.
        masked: APIs whose volatile values the view masks.
        sample, drawn: As of `ExposureReport`.
        unit: What was counted: see `fpmonitor.unit`.
    """

    JSON: ClassVar[str] = "k population users delta basis pairs disagreeing_pairs sets masked"

    k: int
    population: int
    users: int
    delta: float
    basis: Basis
    pairs: int
    disagreeing_pairs: int
    sets: tuple[RankedSet, ...]
    masked: tuple[str, ...] = ()
    sample: SampleModel = PLAIN_DRAWS
    drawn: Drawn | None = None
    unit: Unit = "user"

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each set."""
        return [asdict(line) for line in self.sets]

    def to_json(self) -> dict[str, Any]:
        """Return the ranking as the CLI prints it."""
        members: dict[str, Any] = Result.to_json(self)
        return members | sample_members(self.sample, self.drawn) | told_unit(self.unit)


def rank_sets(
    population: Population,
    question: Question,
    sets: Iterable[Sequence[str]] = (),
    *,
    size: int = 1,
    candidates: Sequence[str] | None = None,
) -> Ranking:
    """Rank API sets by entropy and by exposure, to show where the two orders disagree.

    Args:
        population, question: The users, and what is asked of them; all sets together name the APIs
            that a user must have where absent ones are dropped.
        sets: The API sets; when there is none, all sets of up to `size` of the candidates.
        size, candidates: See `sets`; all APIs that may be named by default.
    """
    distinct = _distinct(population, question, sets, size, candidates)
    together = sorted({api for apis in distinct for api in apis})
    eligible_users = population.for_question(question, together)
    check_users(eligible_users.users, question.k)
    question = eligible_users.question(question)
    k, n = question.k, question.users
    basis = basis_of(question, eligible_users.users)
    if basis == "unbiased":
        spectra = eligible_users.source(together).spectra(distinct)
        spectra_shown = [
            disclosed_spectra(spectrum, k, eligible_users.audience).most for spectrum in spectra
        ]
        exposures = [_unbiased(spectrum, k, n) for spectrum in spectra_shown]
    else:
        # The first of a ranking was chosen by its limit: all of them must hold together.
        sample = population.sample(question, distinct, chosen=True)
        sample.ask(distinct)
        spectra_shown = [sample.disclosed(apis).most for apis in distinct]
        exposures = [sample.limits(apis)[1] for apis in distinct]
    least = smallest_told_group(k, eligible_users.audience)
    ranked = _ranked(distinct, spectra_shown, np.array(exposures), n, least)
    pairs, disagreeing = _disagreements(ranked)
    return Ranking(
        k=k,
        population=n,
        users=eligible_users.users,
        delta=question.delta,
        basis=basis,
        pairs=pairs,
        disagreeing_pairs=disagreeing,
        sets=tuple(sorted(ranked, key=lambda line: (line.place_by_exposure, line.apis))),
        masked=eligible_users.masked(together, k),
        sample=question.sample,
        drawn=eligible_users.drawn,
        unit=eligible_users.unit,
    )


def basis_of(question: Question, users: int) -> Basis:
    """Return what sets are ranked by, of so many observed users: see `Ranking.basis`."""
    # The unbiased estimate is defined up to m users, and right for draws from the population alone.
    is_right = question.users <= users and question.sample.departure == NO_DEPARTURE
    return "unbiased" if is_right else "upper"


def _distinct(
    population: Population,
    question: Question,
    sets: Iterable[Sequence[str]],
    size: int,
    candidates: Sequence[str] | None,
) -> list[tuple[str, ...]]:
    wanted = sorted_sets(population.named(apis) for apis in sets)
    if not wanted:
        chosen = population.askable_apis(question) if candidates is None else candidates
        wanted = sets_up_to(size, sorted(population.named(chosen)))
    if not wanted:
        raise InputError("sets: name at least one set, of at least one API each")
    return sorted(set(wanted))


def _unbiased(spectrum: CountSpectrum, k: int, population: int) -> float:
    estimate = unbiased_exposure(spectrum, k=k, population=population)
    if estimate is None:
        raise InputError("population: above the observed users")
    return estimate


def _ranked(
    sets: Sequence[tuple[str, ...]],
    spectra: Sequence[CountSpectrum],
    exposures: NDArray[np.float64],
    population: int,
    least: int,
) -> list[RankedSet]:
    factors = [misleading_factors(spectrum, least=least) for spectrum in spectra]
    bits = np.array([entropy_bits(spectrum) for spectrum in spectra])
    by_entropy, by_exposure = places_of(bits), places_of(exposures)
    return [
        RankedSet(
            apis=apis,
            values=spectrum.support,
            entropy_bits=float(bits[at]),
            exposure=float(exposures[at]),
            place_by_entropy=int(by_entropy[at]),
            place_by_exposure=int(by_exposure[at]),
            places_apart=int(by_entropy[at] - by_exposure[at]),
            naive_group_size=naive_group_size(float(bits[at]), population),
            misleading_factor=factors[at][0],
            misleading_factor_worst_5=factors[at][1],
            misleading_factor_worst_1=factors[at][2],
        )
        for at, (apis, spectrum) in enumerate(zip(sets, spectra, strict=True))
    ]


def places_of(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Place of each score, the highest first; equal ones (up to rounding) share a place."""
    # Sums of the same shares in another order differ in their last digits.
    rounded = np.round(scores, 12)
    places: NDArray[np.intp] = 1 + np.searchsorted(np.sort(-rounded), -rounded)
    return places


def _disagreements(ranked: Sequence[RankedSet]) -> tuple[int, int]:
    """Pairs that are strictly ordered both ways, and those of them ordered differently."""
    entropy = np.array([line.place_by_entropy for line in ranked])
    exposure = np.array([line.place_by_exposure for line in ranked])
    pairs = disagreeing = 0
    # A row at a time: all pairs at once would take memory of the square of the sets.
    for at in range(len(ranked)):
        same = np.sign(entropy[at] - entropy[:at]) * np.sign(exposure[at] - exposure[:at])
        pairs += int(np.count_nonzero(same))
        disagreeing += int(np.count_nonzero(same < 0))
    return pairs, disagreeing
