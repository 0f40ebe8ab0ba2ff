"""The bounds of the paper and the certificate side by side, for one API set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fpmonitor.disclosure import least_exposing, most_exposing
from fpmonitor.estimate.bounds import Interval, proposition9, theorem5, theorem8
from fpmonitor.estimate.entropy import entropy_bits, exposure_bound_from_entropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.spectrum import CountSpectrum

STATISTICAL = "statistical exposure Q(n, k)"
CURVE = "exposure curve of the population at k/n"
OBSERVED_CURVE = "exposure curve of the observed users at k/n"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBound:
    """Limits of one quantity by one theorem.

    Attributes
    ----------
    bound
        `certificate`, or the theorem of "Statistical anonymity".
    concerns
        The quantity: theorems bound different ones.
    interval
        The limits, and why they say nothing if so.
    """

    bound: str
    concerns: str
    interval: Interval

    def to_json(self) -> dict[str, Any]:
        """Return the bound as the CLI prints it."""
        return {
            "bound": self.bound,
            "concerns": self.concerns,
            "lower": self.interval.lower,
            "upper": self.interval.upper,
            "width": self.interval.width,
            "reason": self.interval.reason,
        }


def compare_bounds(
    spectrum: CountSpectrum,
    certified: Interval,
    *,
    k: int,
    population: int,
    delta: float,
    support: int | None = None,
    suppressed: bool = False,
) -> tuple[NamedBound, ...]:
    """Put the certificate and the bounds of "Statistical anonymity" side by side.

    Parameters
    ----------
    spectrum
        Count spectrum of all users.
    certified
        Limits of the certificate.
    k, population
        Anonymity threshold and `n`, users.
    delta
        Tolerated probability that a limit fails, in (0, 1).
    support
        Number of values that users can have, declared beforehand; None when unknown.
    suppressed
        Whether the number of exposed users must not be told.

    Raises
    ------
    InputError
        `support` is smaller than the number of values seen.
    """
    bounds = [NamedBound(bound="certificate", concerns=STATISTICAL, interval=certified)]
    for name, concerns, theorem in (
        ("theorem 8", STATISTICAL, theorem8),
        ("theorem 5", CURVE, theorem5),
        ("proposition 9", CURVE, proposition9),
    ):
        interval = told_interval(
            theorem,
            spectrum,
            k=k,
            population=population,
            delta=delta,
            support=support,
            suppressed=suppressed,
        )
        bounds.append(NamedBound(bound=name, concerns=concerns, interval=interval))
    if k < population:
        told = most_exposing(spectrum, k) if suppressed else spectrum
        read = exposure_bound_from_entropy(entropy_bits(told), k / population)
        interval = Interval(lower=0.0, upper=read)
        bounds.append(NamedBound(bound="proposition 9", concerns=OBSERVED_CURVE, interval=interval))
    return tuple(bounds)


def told_interval(
    theorem: Callable[..., Interval],
    spectrum: CountSpectrum,
    *,
    k: int,
    population: int,
    delta: float,
    support: int | None,
    suppressed: bool,
) -> Interval:
    """Limits of a theorem; wider where the number of exposed users must not be told.

    They are then the upper limit of the most and the lower one of the least exposing case: both
    hold, because all limits grow with the exposure.

    Raises
    ------
    InputError
        `support` is smaller than the number of values seen.
    """
    interval = theorem(spectrum, k=k, population=population, delta=delta, support=support)
    if not suppressed:
        return interval
    most, least = (
        theorem(
            told,
            k=k,
            population=population,
            delta=delta,
            support=None if support is None else max(support, told.support),
        )
        for told in (most_exposing(spectrum, k), least_exposing(spectrum, k))
    )
    return Interval(lower=least.lower, upper=most.upper, reason=most.reason and least.reason)
