"""Exposure of what lists would leave readable of a decision's candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.answers.decide import called_as, question_of
from fpmonitor.answers.exposure import ExposureReport, report_exposure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.population import Population

    Measure = Callable[[tuple[str, ...], tuple[str, ...]], tuple[float, float]]


def limits_of_left(population: Population, decision: Decision) -> Measure:
    """Return what limits the exposure of what a list leaves readable, at most and at least.

    Parameters and errors are those of `preview_sets`.
    """

    def measure(most: Sequence[str], least: Sequence[str]) -> tuple[float, float]:
        # From below what surely stays, from above all that may.
        low, high = preview_sets(population, decision, [least, most])
        return low.lower, high.upper

    return measure


def preview_sets(
    population: Population, decision: Decision, sets: Iterable[Sequence[str]]
) -> list[ExposureReport]:
    """Estimate the exposure of subsets of a decision's candidates, as its own question.

    Args:
        population: The users of now, seen as the decision saw its own.
        decision: Its policy is the question.
        sets: Subsets of its candidates; the empty set exposes nobody.
    """
    decision = called_as(decision, population)
    wanted = [sorted(population.named(apis)) for apis in sets]
    question = question_of(decision)
    sample = population.sample(question, [decision.policy.candidates])
    sample.ask(wanted)
    return [report_exposure(sample, apis) for apis in wanted]
