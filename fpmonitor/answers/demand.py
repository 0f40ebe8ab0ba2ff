"""The exposure of the API sets that scripts really read: demand joined with the population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fpmonitor.results import Result
from fpmonitor.vocabulary import base_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fpmonitor.answers.exposure import ExposureReport
    from fpmonitor.store.demand import ApiDemand


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandLine(Result):
    """One API set that is read together.

    Attributes
    ----------
    demand
        The set, and by how many scripts on how many sites it is read.
    observed
        What the population log knows of it: all that it holds of these APIs, whatever the selector.
    unobserved
        APIs of the set that the population log lacks.
    exposure
        Exposure of `observed`; null where that is empty. What is not observed can only add to it,
        so that the upper limit holds for the whole set only if nothing is unobserved.
    """

    demand: ApiDemand
    observed: tuple[str, ...]
    unobserved: tuple[str, ...]
    exposure: ExposureReport | None

    def to_json(self) -> dict[str, Any]:
        """Return the line as the CLI prints it."""
        exposure = self.exposure
        return {
            "apis": list(self.demand.apis),
            "scripts": self.demand.scripts,
            "sites": self.demand.sites,
            "observed": list(self.observed),
            "unobserved": list(self.unobserved),
            "empirical": None if exposure is None else exposure.empirical,
            "plug_in": None if exposure is None else exposure.plug_in,
            "lower": None if exposure is None else exposure.lower,
            "upper": None if exposure is None or self.unobserved else exposure.upper,
        }


def observed_apis(apis: Iterable[str], population: Iterable[str]) -> tuple[str, ...]:
    """Find those APIs of a population log that one of `apis` reads, with any selector."""
    wanted = set(apis)
    return tuple(sorted(api for api in population if api in wanted or base_of(api) in wanted))


def unobserved_apis(apis: Iterable[str], population: Iterable[str]) -> tuple[str, ...]:
    """Find those of `apis` of which a population log knows nothing."""
    known = {name for api in population for name in (api, base_of(api))}
    return tuple(api for api in apis if api not in known)
