"""The bounds of the paper and the certificate side by side, for one API set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.estimate.bounds import Interval, proposition9, theorem5, theorem8
from fpmonitor.estimate.entropy import entropy_bits, exposure_bound_from_entropy
from fpmonitor.results import Members

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.question import Question
    from fpmonitor.spectrum import CountSpectrum, DisclosedSpectra

STATISTICAL = "statistical exposure Q(n, k)"
CURVE = "exposure curve of the population at k/n"
OBSERVED_CURVE = "exposure curve of the observed users at k/n"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBound(Members):
    """Limits of one quantity by one theorem.

    Attributes:
        bound: `certificate`, or the theorem of "Statistical anonymity".
        concerns: The quantity: theorems bound different ones.
        interval: The limits, and why they say nothing if so.
    """

    JSON: ClassVar[str] = (
        "bound concerns lower=interval.lower upper=interval.upper width=interval.width "
        "reason=interval.reason"
    )

    bound: str
    concerns: str
    interval: Interval


def compare_bounds(
    spectra: DisclosedSpectra,
    certified: Interval,
    question: Question,
    *,
    support: int | None = None,
) -> tuple[NamedBound, ...]:
    """Put the certificate and the bounds of "Statistical anonymity" side by side.

    Args:
        spectra: What is told of the count spectrum of all users.
        question: What is asked; its population is named.
        support: Number of values that users can have, declared beforehand; None when unknown.
    """
    bounds = [NamedBound(bound="certificate", concerns=STATISTICAL, interval=certified)]
    for name, concerns, theorem in (
        ("theorem 8", STATISTICAL, theorem8),
        ("theorem 5", CURVE, theorem5),
        ("proposition 9", CURVE, proposition9),
    ):
        interval = disclosed_interval(theorem, spectra, question, support=support)
        bounds.append(NamedBound(bound=name, concerns=concerns, interval=interval))
    # At a threshold of 1 or more the bound says nothing: all values but a single one are rarer.
    if question.k < question.users:
        share = question.k / question.users
        read = exposure_bound_from_entropy(entropy_bits(spectra.most), share)
        interval = Interval(lower=0.0, upper=read)
        bounds.append(NamedBound(bound="proposition 9", concerns=OBSERVED_CURVE, interval=interval))
    return tuple(bounds)


def disclosed_interval(
    theorem: Callable[..., Interval],
    spectra: DisclosedSpectra,
    question: Question,
    *,
    support: int | None,
) -> Interval:
    """Limits of a theorem: the upper one of the most and the lower one of the least exposing case.

    Both hold, because all limits grow with the exposure.
    """

    def limits(spectrum: CountSpectrum) -> Interval:
        return theorem(
            spectrum,
            k=question.k,
            population=question.users,
            delta=question.delta,
            # How many values were seen is not told where others are told another number.
            support=max(support, spectrum.support) if support and spectra.suppressed else support,
        )

    if not spectra.suppressed:
        return limits(spectra.most)
    most, least = limits(spectra.most), limits(spectra.least)
    return Interval(lower=least.lower, upper=most.upper, reason=most.reason and least.reason)
