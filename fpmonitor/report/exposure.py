"""All that can be said of the exposure of one API set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fpmonitor.estimate.bounds import theorem5, theorem8
from fpmonitor.estimate.entropy import entropy_bits, misleading_factor, naive_group_size
from fpmonitor.estimate.exposure import (
    empirical_exposure,
    plug_in_exposure,
    unbiased_exposure,
)

if TYPE_CHECKING:
    from fpmonitor.estimate.bounds import Interval
    from fpmonitor.estimate.certificate import Certificate
    from fpmonitor.spectrum import CountSpectrum


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureReport:
    """Exposure of one API set: point estimates, limits, and the entropy reading beside them.

    Attributes
    ----------
    apis
        The set.
    users, values
        Observed users, and distinct values among them.
    k, population, delta
        The question.
    empirical
        Share of the observed users in groups smaller than k.
    plug_in, unbiased
        Estimates of the statistical exposure, shares; `unbiased` is null for a population above
        the number of users.
    lower, upper
        Limits of the certificate, each wrong with probability at most delta.
    theorem5, theorem8
        The limits of "Statistical anonymity", for comparison.
    entropy_bits
        Shannon entropy of the observed users, bits.
    naive_group_size
        How many of the population share a value by the usual reading, `n / 2^H`.
    misleading_factor
        How many times larger that reading is than the group of a typical user; above 1 it flatters.
    """

    apis: tuple[str, ...]
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
    theorem5: Interval
    theorem8: Interval
    entropy_bits: float
    naive_group_size: float
    misleading_factor: float

    def to_json(self) -> dict[str, Any]:
        """Give the report as the CLI prints it."""
        return {
            "apis": list(self.apis),
            "users": self.users,
            "values": self.values,
            "k": self.k,
            "population": self.population,
            "delta": self.delta,
            "empirical": self.empirical,
            "plug_in": self.plug_in,
            "unbiased": self.unbiased,
            "lower": self.lower,
            "upper": self.upper,
            "paper": {
                "theorem5": [self.theorem5.lower, self.theorem5.upper],
                "theorem8": [self.theorem8.lower, self.theorem8.upper],
            },
            "entropy_bits": self.entropy_bits,
            "naive_group_size": self.naive_group_size,
            "misleading_factor": self.misleading_factor,
        }


def report_exposure(
    apis: tuple[str, ...],
    spectrum: CountSpectrum,
    thinned: CountSpectrum,
    certificate: Certificate,
    *,
    k: int,
    population: int,
) -> ExposureReport:
    """Estimate the exposure of one API set in every way.

    Parameters
    ----------
    apis
        The set.
    spectrum, thinned
        Its count spectrum over all users, and over those that the thinning keeps.
    certificate
        Made for the number of users, `k` and `population`.
    k, population
        Anonymity threshold and `n`, users.
    """
    delta = certificate.delta
    bits = entropy_bits(spectrum)
    return ExposureReport(
        apis=apis,
        users=spectrum.users,
        values=spectrum.support,
        k=k,
        population=population,
        delta=delta,
        empirical=empirical_exposure(spectrum, k),
        plug_in=plug_in_exposure(spectrum, k=k, population=population),
        unbiased=unbiased_exposure(spectrum, k=k, population=population),
        lower=certificate.lower(thinned),
        upper=certificate.upper(thinned),
        theorem5=theorem5(spectrum, k=k, population=population, delta=delta),
        theorem8=theorem8(spectrum, k=k, population=population, delta=delta),
        entropy_bits=bits,
        naive_group_size=naive_group_size(bits, population),
        misleading_factor=misleading_factor(spectrum),
    )
