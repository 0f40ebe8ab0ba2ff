"""Why a decision withholds an API, and what would change that: coarser values, or more users."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.answers.decide import called_as, question_of, users_meant
from fpmonitor.decide.deciding import forecast_of, possible_of
from fpmonitor.errors import FpmonitorError
from fpmonitor.export.lists import api_actions
from fpmonitor.results import Result
from fpmonitor.store.transforms import Transform, is_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.population import Population

_NUMBERS = re.compile(r"-?\d+(?:\.\d+)?(?:\D{1,3}-?\d+(?:\.\d+)?)*")
_VERSIONS = re.compile(r"[0-9]+[._][0-9]+")
_STEPS = (10, 100)
_MOST_VALUES = 20_000  # of one API: more are no list of values that people would round


@dataclass(frozen=True, slots=True, kw_only=True)
class Coarser:
    """What an API could return instead.

    Attributes:
        words: What is done to its values.
        transform: The same as `--what-if` has it.
        lower, upper: Limits of the exposure of the recommended set with it, shares.
        fits: Whether that is within the budget.
    """

    words: str
    transform: Mapping[str, Any]
    lower: float
    upper: float
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld(Result):
    """An API that a decision withholds.

    Attributes:
        api, reason: What the log calls it, and why it is withheld.
        lower, upper: Limits of the exposure of the recommended set with it, shares; null without
            evidence.
        coarser: The same with less of its values, from fine to coarse.
        is_undecided, users_needed, users_possible: Whether more users might allow it; how many are
            expected to settle that; and from how many on any test could: null where that is more
            than 100 million, or unknown.
    """

    api: str
    reason: str
    lower: float | None
    upper: float | None
    coarser: tuple[Coarser, ...]
    is_undecided: bool
    users_needed: int | None
    users_possible: int | None = None


def explain_withheld(population: Population, decision: Decision) -> tuple[Withheld, ...]:
    """Tell of each API that a decision withholds why, and what would change that.

    Each limit holds for its set alone, as those of `report_exposures`: they say where to look, and
    another decision on other users promises it.

    Args:
        population: The users of now, seen as the decision saw its own.
    """
    decision = called_as(decision, population)
    question, recommended = question_of(decision), decision.recommended
    actions = [entry for entry in api_actions(decision) if entry.is_withheld]
    sets = {entry.api: tuple(sorted({*recommended, entry.api})) for entry in actions}
    sample = population.sample(question, [decision.policy.candidates])
    evident = {entry.api for entry in actions if entry.outcome != "no evidence"}
    limits = {api: sample.limits(apis) for api, apis in sets.items() if api in evident}
    undecided = [
        api for api in limits if decision.verdict(sets[api])[0] in {"undecided", "unknown"}
    ]
    needed: dict[str, int | None] = {}
    possible: dict[str, int | None] = {}
    if undecided and decision.policy.sample.is_plain and decision.setting == "population":
        source = users_meant(population, decision).source(sorted(decision.policy.candidates))
        found = forecast_of(source, decision, [sets[api] for api in undecided])["users_needed"]
        least = possible_of(source, decision, map(sets.__getitem__, undecided)) or ()
        possible = dict(zip(undecided, least, strict=False))
        needed = dict(zip(undecided, found, strict=False))
    return tuple(
        Withheld(
            api=entry.api,
            reason=entry.reason,
            lower=limits[entry.api][0] if entry.api in limits else None,
            upper=limits[entry.api][1] if entry.api in limits else None,
            coarser=tuple(_coarser(population, decision, entry.api)) if entry.api in limits else (),
            is_undecided=entry.api in undecided,
            users_needed=needed.get(entry.api),
            users_possible=possible.get(entry.api),
        )
        for entry in actions
    )


def _coarser(population: Population, decision: Decision, api: str) -> Iterator[Coarser]:
    """Try what fits the values of an API; what merges none of them is left out."""
    try:
        texts = population.values(api)
    except FpmonitorError:  # a snapshot without values
        return
    if not texts or len(texts) > _MOST_VALUES or any(map(is_digest, texts.values())):
        return
    # Beside the recommended set, which sites read anyway.
    apis, question = [*decision.recommended, api], question_of(decision)
    seen = len(set(texts.values()))
    for words, transform in _steps(tuple(texts.values())):
        left = len({transform(text) for text in texts.values()})
        # Left out where nothing merges, and where all merge: that is to withhold the API.
        if left >= seen or left == 1:
            continue
        seen = left
        view = replace(population.view, transforms={**population.view.transforms, api: transform})
        sample = population.seen_by(view).sample(question, [apis])
        lower, upper = sample.limits(sorted(apis))
        fields = Transform.__struct_fields__
        content = {name: getattr(transform, name) for name in fields if getattr(transform, name)}
        fits = upper <= decision.policy.budget
        yield Coarser(words=words, transform=content, lower=lower, upper=upper, fits=fits)


def _steps(texts: tuple[str, ...]) -> Iterator[tuple[str, Transform]]:
    """Yield what can be made of some values, from fine to coarse."""
    # More than half: some texts among numbers, such as errors, must not keep these from being
    # rounded.
    if np.mean([_NUMBERS.fullmatch(text) is not None for text in texts]) > 0.5:
        for step in _STEPS:
            yield f"to multiples of {step}", Transform(round=step)
    elif any(map(_VERSIONS.search, texts)):
        yield "to first numbers of versions", Transform(major=True)
