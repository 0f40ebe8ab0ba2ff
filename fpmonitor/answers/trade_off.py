"""What level vectors expose, and how useful they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.answers.decide import question_of
from fpmonitor.disclosure import check_users, told_spectra
from fpmonitor.estimate.exposure import plug_in_exposure
from fpmonitor.population.level_source import LevelSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.decide.decision import Verdict
    from fpmonitor.decide.level_decision import LevelDecision
    from fpmonitor.population.levels import Vector
    from fpmonitor.population.population import Population

_MOST_LISTED = 60  # of each list


@dataclass(frozen=True, slots=True)
class TradeOff:
    """A level vector, how useful it is, and its exposure.

    Attributes
    ----------
    vector, verdict
        As a decision has them.
    utility
        Sum of the utilities of its levels.
    exposure
        Plug-in estimate, a share of the users, from what the audience is told.
    """

    vector: Vector
    verdict: Verdict
    utility: float
    exposure: float


def trade_offs(
    population: Population, decision: LevelDecision, *, practice: Vector | None = None
) -> tuple[TradeOff, ...]:
    """Return what the recommended and some listed vectors expose of the users of now.

    Parameters
    ----------
    population
        The users.
    decision
        Whose vectors are meant.
    practice
        What is shown today, named by the user: it comes first.
    """
    k, population_size = decision.policy.k, decision.policy.population
    asked = population.asked(question_of(decision), decision.policy.candidates)
    check_users(asked.users, k)
    source = LevelSource(asked, decision.components)
    found = []
    for vector in dict.fromkeys((*filter(None, [practice]), *_listed(decision))):
        told = told_spectra(source.spectrum(vector), k, population.audience)
        found.append(
            TradeOff(
                vector=vector,
                verdict=decision.verdict(vector),
                utility=decision.utility_of(vector),
                exposure=plug_in_exposure(told.most, k=k, population=population_size),
            )
        )
    return tuple(found)


def _listed(decision: LevelDecision) -> Iterator[Vector]:
    """Yield the recommended vector, some of those that are listed, and the finest one."""
    vectors = [decision.recommended] if decision.recommended is not None else []
    for listed in (decision.allow, decision.undecided, decision.block):
        vectors += listed[:_MOST_LISTED]
    vectors.append(tuple(component.most for component in decision.components))
    yield from vectors
