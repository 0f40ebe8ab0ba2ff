"""The price of trust: what marginals, pairs and the joint law can each promise for one API set."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fpmonitor.errors import InputError
from fpmonitor.estimate.composition import (
    MarginalDistribution,
    best_composition,
    composition_from_sample,
    observed_threshold,
)
from fpmonitor.estimate.entropy import chow_liu_upper_bits, entropy_bits
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.results import Members

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.population.sample import CertifiedSample
    from fpmonitor.spectrum import CountSpectrum

Knowledge = Literal["marginals", "pairs", "joint"]
KNOWLEDGE: tuple[Knowledge, ...] = ("marginals", "pairs", "joint")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustLevel(Members):
    """What one who knows only so much of the joint law can promise.

    Attributes:
        knowledge: `marginals`: the law of each API; `pairs`: also of each pair; `joint`: of all
            together.
        upper, rule: Upper limit of the statistical exposure `Q(n, k)`, and what gave it; holds with
            probability `1 - delta`, for every joint law with such marginals.
        observed_upper, observed_rule: Upper bound of the share of the observed users in groups
            smaller than k, without error.
        entropy_upper_bits: Upper bound of the joint entropy of the observed users, bits.
    """

    JSON: ClassVar[str] = "knowledge upper rule observed_upper observed_rule entropy_upper_bits"

    knowledge: Knowledge
    upper: float
    rule: str
    observed_upper: float
    observed_rule: str
    entropy_upper_bits: float


def parts_of(sets: Iterable[Sequence[str]], knowledge: Knowledge | None) -> list[tuple[str, ...]]:
    """List the sets whose spectra `price_of_trust` looks at besides the sets themselves."""
    if knowledge is None:
        return []
    sizes = (1,) if knowledge == "marginals" else (1, 2)
    return [part for apis in sets for size in sizes for part in itertools.combinations(apis, size)]


def price_of_trust(
    sample: CertifiedSample, apis: Sequence[str], knowledge: Knowledge
) -> tuple[TrustLevel, ...]:
    """Promises of all levels of knowledge up to the given one, the least first.

    Raises:
        InputError: `knowledge` is none of the levels.
    """
    if knowledge not in KNOWLEDGE:
        raise InputError(f"trust: {knowledge!r} is none of {', '.join(KNOWLEDGE)}")
    levels = []
    # Once for all levels, which each need them.
    singles = [sample.disclosed([api]).most for api in apis]
    for level in KNOWLEDGE[: KNOWLEDGE.index(knowledge) + 1]:
        # The distribution of a single API is its marginal, that of two APIs their pair.
        if len(apis) <= KNOWLEDGE.index(level) + 1 or level == "joint":
            levels.append(_joint(sample, level, apis))
        else:
            pairs = _pairs(sample, apis) if level == "pairs" else {}
            levels.append(_composed(sample, level, apis, singles, pairs))
    return tuple(levels)


def _pairs(sample: CertifiedSample, apis: Sequence[str]) -> dict[tuple[int, int], CountSpectrum]:
    return {
        (i, j): sample.disclosed([apis[i], apis[j]]).most
        for i, j in itertools.combinations(range(len(apis)), 2)
    }


def _joint(sample: CertifiedSample, knowledge: Knowledge, apis: Sequence[str]) -> TrustLevel:
    spectrum = sample.disclosed(apis).most
    return TrustLevel(
        knowledge=knowledge,
        upper=sample.limits(apis)[1],
        rule="certificate",
        observed_upper=empirical_exposure(spectrum, sample.question.k),
        observed_rule="count",
        entropy_upper_bits=entropy_bits(spectrum),
    )


def _composed(
    sample: CertifiedSample,
    knowledge: Knowledge,
    apis: Sequence[str],
    singles: Sequence[CountSpectrum],
    pairs: Mapping[tuple[int, int], CountSpectrum],
) -> TrustLevel:
    question = sample.question
    sampled = composition_from_sample(
        singles,
        k=question.k,
        population=question.users,
        delta=question.delta,
        rng=sample.rng(knowledge, apis),
        pairs=pairs,
    )
    observed, rule = _observed(sample, singles, pairs)
    # What others are told of a pair may be coarser than of its APIs: without it the bound grows.
    fitting = {
        (i, j): joint
        for (i, j), joint in pairs.items()
        if joint.support >= max(singles[i].support, singles[j].support)
    }
    bits = chow_liu_upper_bits(singles, fitting)
    return TrustLevel(
        knowledge=knowledge,
        upper=sampled.upper,
        rule=sampled.rule,
        observed_upper=observed,
        observed_rule=rule,
        # m users have at most m values, however many combinations there could be.
        entropy_upper_bits=min(bits, math.log2(sample.users)),
    )


def _observed(
    sample: CertifiedSample,
    singles: Sequence[CountSpectrum],
    pairs: Mapping[tuple[int, int], CountSpectrum],
) -> tuple[float, str]:
    """Bound on the observed users themselves, whose marginals are known exactly."""
    threshold = observed_threshold(sample.question.k, sample.users)
    # Not where there are k users: all of them may share all values.
    if threshold >= 1:
        return 1.0, "no user is safe among so few"
    bound = best_composition(
        [MarginalDistribution.from_spectrum(single) for single in singles],
        threshold=threshold,
        pairs={pair: MarginalDistribution.from_spectrum(joint) for pair, joint in pairs.items()},
    )
    return bound.upper, bound.rule
