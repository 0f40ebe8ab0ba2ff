"""What level vectors expose, and how useful they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.answers.decide import users_meant
from fpmonitor.disclosure import check_users, disclosed_spectra
from fpmonitor.estimate.exposure import plug_in_exposure
from fpmonitor.population.level_source import level_source
from fpmonitor.population.levels import level_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.decide.decision import ApiSet, Decision, Verdict
    from fpmonitor.population.population import Population

_MOST_LISTED = 60  # of each list


@dataclass(frozen=True, slots=True)
class TradeOff:
    """A level vector, how useful it is, and its exposure.

    Attributes:
        apis, verdict: Levels that are shown, as a decision lists them, and what it says of them.
        utility: Sum of the utilities of its levels.
        exposure: Plug-in estimate, a share of the users, from what the audience is told.
    """

    apis: ApiSet
    verdict: Verdict
    utility: float
    exposure: float


def trade_offs(
    population: Population, decision: Decision, *, practice: ApiSet | None = None
) -> tuple[TradeOff, ...]:
    """Return what the recommended and some listed vectors expose of the users of now.

    Args:
        practice: What is shown today, named by the user: it comes first.
    """
    k, population_size = decision.policy.k, decision.policy.population
    eligible_users = users_meant(population, decision)
    check_users(eligible_users.users, k)
    source = level_source(eligible_users, decision.components)
    found = []
    first = [] if practice is None else [practice]
    for apis in dict.fromkeys((*first, *_listed(decision))):
        spectra = disclosed_spectra(source.spectrum(apis), k, population.audience)
        found.append(
            TradeOff(
                apis=apis,
                verdict=decision.verdict(apis)[0],
                utility=decision.lattice.utility_of(apis),
                exposure=plug_in_exposure(spectra.most, k=k, population=population_size),
            )
        )
    return tuple(found)


def _listed(decision: Decision) -> Iterator[ApiSet]:
    """Yield the recommended vector, some of those that are listed, and the finest one."""
    if decision.has_recommended:
        yield decision.recommended
    for listed in (decision.allow, decision.undecided, decision.block):
        yield from listed[:_MOST_LISTED]
    yield level_words(decision.components, tuple(each.most for each in decision.components))
