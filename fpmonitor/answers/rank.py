"""API sets ranked by entropy and by exposure, and where the two orders disagree."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fpmonitor.disclosure import most_exposing
from fpmonitor.errors import InputError
from fpmonitor.estimate.entropy import entropy_bits, misleading_factor, naive_group_size
from fpmonitor.estimate.exposure import unbiased_exposure
from fpmonitor.results import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from fpmonitor.spectrum import CountSpectrum, SpectrumSource

Basis = Literal["unbiased", "upper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSet:
    """An API set with its places in both orders; place 1 tells users apart best.

    Attributes
    ----------
    apis
        The set.
    values
        Distinct values observed.
    entropy_bits
        Plug-in entropy, bits.
    exposure
        Statistical exposure, a share of the users, see `Ranking.basis`.
    place_by_entropy, place_by_exposure
        Sets that precede it, plus one; equal sets share a place.
    places_apart
        Place by entropy minus place by exposure: above 0, the set exposes more users than its
        entropy suggests.
    naive_group_size, misleading_factor
        `n / 2^H`, and how many times larger that is than the group of a typical user.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Result):
    """API sets in the order of their exposure, and how far the order of entropy differs.

    Attributes
    ----------
    k, population, users
        The question, and the observed users.
    basis
        What `exposure` is: the unbiased estimate, or for a population above the observed users the
        upper limit of the certificate, each limit for its set alone.
    pairs, disagreeing_pairs
        Pairs of sets that differ in entropy and in exposure, and those of them that the two order
        differently.
    sets
        The most exposing first.
    """

    k: int
    population: int
    users: int
    basis: Basis
    pairs: int
    disagreeing_pairs: int
    sets: tuple[RankedSet, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each set."""
        return [asdict(line) for line in self.sets]

    def to_json(self) -> dict[str, Any]:
        """Return the ranking as the CLI prints it."""
        return asdict(self)


def rank_sets(
    sets: Iterable[Sequence[str]],
    source: SpectrumSource,
    *,
    k: int,
    population: int,
    upper_limit: Callable[[Sequence[str]], float] | None = None,
) -> Ranking:
    """Rank API sets by entropy and by exposure.

    Where 1 to k - 1 observed users are exposed, by those of k - 1 users.

    Parameters
    ----------
    sets
        The API sets; repeated ones count once.
    source
        Spectra of all users.
    k, population
        Anonymity threshold and `n`, users.
    upper_limit
        Upper limit of the exposure of a set, needed for a population above the users.

    Raises
    ------
    InputError
        No set, or a population above the users without `upper_limit`.
    UnknownNameError
        An API that was never observed.
    """
    distinct = sorted({tuple(sorted(set(apis))) for apis in sets})
    if not distinct or not all(distinct):
        raise InputError("sets: name at least one set, of at least one API each")
    spectra = [source.spectrum(apis) for apis in distinct]
    told = [most_exposing(spectrum, k) for spectrum in spectra]
    if population <= source.users:
        basis: Basis = "unbiased"
        exposures = [_unbiased(spectrum, k, population) for spectrum in told]
    elif upper_limit is not None:
        basis = "upper"
        exposures = [upper_limit(apis) for apis in distinct]
    else:
        raise InputError("population: above the observed users, the exposure needs a limit")
    supports = [spectrum.support for spectrum in spectra]
    ranked = _ranked(distinct, supports, told, np.array(exposures), population)
    pairs, disagreeing = _disagreements(ranked)
    return Ranking(
        k=k,
        population=population,
        users=source.users,
        basis=basis,
        pairs=pairs,
        disagreeing_pairs=disagreeing,
        sets=tuple(sorted(ranked, key=lambda line: (line.place_by_exposure, line.apis))),
    )


def _unbiased(spectrum: CountSpectrum, k: int, population: int) -> float:
    estimate = unbiased_exposure(spectrum, k=k, population=population)
    if estimate is None:
        raise InputError("population: above the observed users")
    return estimate


def _ranked(
    sets: Sequence[tuple[str, ...]],
    supports: Sequence[int],
    spectra: Sequence[CountSpectrum],
    exposures: NDArray[np.float64],
    population: int,
) -> list[RankedSet]:
    bits = np.array([entropy_bits(spectrum) for spectrum in spectra])
    by_entropy, by_exposure = _places(bits), _places(exposures)
    return [
        RankedSet(
            apis=apis,
            values=supports[at],
            entropy_bits=float(bits[at]),
            exposure=float(exposures[at]),
            place_by_entropy=int(by_entropy[at]),
            place_by_exposure=int(by_exposure[at]),
            places_apart=int(by_entropy[at] - by_exposure[at]),
            naive_group_size=naive_group_size(float(bits[at]), population),
            misleading_factor=misleading_factor(spectrum),
        )
        for at, (apis, spectrum) in enumerate(zip(sets, spectra, strict=True))
    ]


def _places(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Place of each score, the highest first; equal ones (up to rounding) share a place."""
    rounded = np.round(scores, 12)
    places: NDArray[np.intp] = 1 + np.searchsorted(np.sort(-rounded), -rounded)
    return places


def _disagreements(ranked: Sequence[RankedSet]) -> tuple[int, int]:
    """Pairs that are strictly ordered both ways, and those of them ordered differently."""
    entropy = np.array([line.place_by_entropy for line in ranked])
    exposure = np.array([line.place_by_exposure for line in ranked])
    pairs = disagreeing = 0
    for at in range(len(ranked)):
        same = np.sign(entropy[at] - entropy[:at]) * np.sign(exposure[at] - exposure[:at])
        pairs += int(np.count_nonzero(same))
        disagreeing += int(np.count_nonzero(same < 0))
    return pairs, disagreeing
