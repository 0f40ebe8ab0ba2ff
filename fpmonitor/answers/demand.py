"""The exposure of the API sets that scripts really read: demand joined with the population."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fpmonitor.answers.exposure import ExposureReport, report_exposures
from fpmonitor.errors import UndecidableError
from fpmonitor.population.population import Population
from fpmonitor.population.sample import sample_members
from fpmonitor.question import Question
from fpmonitor.results import Result
from fpmonitor.vocabulary import base_api

_ANY_K = 10  # of names to weigh, which the owner sees alone


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandLine(Result):
    """One API set that is read together.

    Attributes:
        apis, scripts, sites: The set, and by how many scripts (host and path) on how many sites it
            is read.
        observed: What the population log knows of it: all that it holds of these APIs, whatever the
            selector.
        unobserved: APIs of the set that the population log lacks.
        exposure: Exposure of `observed`; null where that is empty. What is not observed can only
            add to it, so that the upper limit holds for the whole set only if nothing is
            unobserved.
    """

    JSON: ClassVar[str] = (
        "apis scripts sites observed unobserved "
        "users=exposure.users empirical=exposure.empirical plug_in=exposure.plug_in "
        "lower=exposure.lower upper=exposure.upper masked=exposure.masked"
    )

    apis: tuple[str, ...]
    scripts: int
    sites: int
    observed: tuple[str, ...]
    unobserved: tuple[str, ...]
    exposure: ExposureReport | None

    def to_json(self) -> dict[str, Any]:
        """Return the line as the CLI prints it."""
        members: dict[str, Any] = Result.to_json(self)
        if self.exposure is None:
            return members | {"masked": []}
        if self.unobserved:
            # What the log lacks can only add to the exposure, by nobody knows how much.
            members["upper"] = None
        return members | sample_members(self.exposure.sample, self.exposure.drawn)


def report_demand(
    population: Population | None,
    question: Question,
    demands: Sequence[tuple[tuple[str, ...], int, int]],
) -> list[DemandLine]:
    """Estimate the exposure of API sets that scripts really read, the most exposing first.

    Args:
        population: The users; None where no log of users was stored, exposures are then null.
        demands: Sets, each with the numbers of its scripts and sites.
    """
    known = () if population is None else population.askable_apis(question)
    means = {} if population is None else population.means
    observed = [observed_apis(read, known, means) for read, *_ in demands]
    distinct = sorted({apis for apis in observed if apis})
    exposure_of: dict[tuple[str, ...], ExposureReport] = {}
    if population is not None and distinct:
        reports = report_exposures(population, question, distinct)
        exposure_of = dict(zip(distinct, reports, strict=True))
    lines = [
        DemandLine(
            apis=read,
            scripts=scripts,
            sites=sites,
            observed=apis,
            unobserved=unobserved_apis(read, known, means),
            exposure=exposure_of.get(apis),
        )
        for (read, scripts, sites), apis in zip(demands, observed, strict=True)
    ]
    # Sets of which nothing was observed last: minus a share is 0 at most.
    return sorted(lines, key=lambda line: -line.exposure.plug_in if line.exposure else 1.0)


def weigh_by_demand(population: Population, sites: Mapping[str, int]) -> dict[str, float]:
    """Weigh each observed API by the number of sites on which scripts read it.

    Args:
        sites: API that scripts read -> on how many sites.

    Raises:
        UndecidableError: No log of API calls was stored.
    """
    if not sites:
        raise UndecidableError(
            "no log of API calls to weigh by", hint="store one with `fpmonitor lists demand LOG...`"
        )
    known = population.publishable_apis(_ANY_K)
    weights = dict.fromkeys(known, 0.0)
    for api, number in sites.items():
        for observed in observed_apis((api,), known, population.means):
            # Not the sum: a site that reads both names of a column would count twice.
            weights[observed] = max(weights[observed], float(number))
    return weights


def observed_apis(
    apis: Iterable[str], population: Iterable[str], means: Mapping[str, str]
) -> tuple[str, ...]:
    """Find those APIs of a population log that one of `apis` reads, with any selector.

    `means` says which APIs the names of the log are.
    """
    wanted = set(apis)
    return tuple(sorted(name for name in population if _reads_of(name, means) & wanted))


def unobserved_apis(
    apis: Iterable[str], population: Iterable[str], means: Mapping[str, str]
) -> tuple[str, ...]:
    """Find those of `apis` of which a population log knows nothing."""
    known = {read for name in population for read in _reads_of(name, means)}
    return tuple(api for api in apis if api not in known)


def _reads_of(name: str, means: Mapping[str, str]) -> set[str]:
    """Return what scripts read to get what a log calls `name`."""
    api = means.get(name, name)
    # A script that reads `getParameter` may read any selector of it.
    return {name, api, base_api(api)}
