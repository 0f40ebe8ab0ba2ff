"""Decisions that a test makes up."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fpmonitor.decide.asked import Search
from fpmonitor.decide.deciding import decide
from fpmonitor.decide.decision import Decision
from fpmonitor.policy import Policy
from fpmonitor.population.levels import Component, LevelMap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fpmonitor.decide.deciding import Tests
    from fpmonitor.decide.decision import Setting
    from fpmonitor.spectrum import SpectrumSource


def decided(
    candidates: Iterable[str],
    *,
    allow: Iterable[Iterable[str]] = (),
    block: Iterable[Iterable[str]] = (),
    undecided: Iterable[Iterable[str]] = (),
    recommended: Iterable[str] = (),
    **members: Any,
) -> Decision:
    """Decision with these sets, in any order; `members` replace what most tests do not look at."""
    policy = Policy(k=10, population=1000, budget=0.1, delta=0.05, candidates=tuple(candidates))
    others: dict[str, Any] = {
        "policy": policy,
        "setting": "population",
        "missing": "value",
        "users": 1000,
        "digest": "0" * 32,
        "guarantee": "It holds.",
        "complete": True,
        "evaluated": 1,
        "seconds": 0.1,
    }
    return Decision(
        allow=_sorted(allow),
        block=_sorted(block),
        undecided=_sorted(undecided),
        recommended=tuple(sorted(recommended)),
        **(others | members),
    )


def _sorted(sets: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(tuple(sorted(apis)) for apis in sets))


def decide_on(
    source: SpectrumSource,
    policy: Policy,
    *,
    seal: str = "",
    setting: Setting = "population",
    universe: int | None = None,
    must: Iterable[str] = (),
    never: Iterable[str] = (),
    weights: Mapping[str, float] | None = None,
    **how: Any,
) -> Decision:
    """Decide all subsets of the candidates of a policy on a source; `how` as of `Search`."""
    asked = replace(
        Decision.begun(policy, setting, digest=seal, universe=universe),
        must=tuple(sorted(must)),
        never=tuple(sorted(never)),
        weights=weights or {},
    )
    return decide(source, asked, Search(**how))


def component(name: str, levels: int) -> Component:
    """A component of one API with so many levels, each of which shows all."""
    maps, utility = (LevelMap(raw=True),) * levels, tuple(map(float, range(levels + 1)))
    return Component(name=name, apis=(name,), levels=maps, utility=utility, least=0, most=levels)


def allowed_as_tested(found: Decision, source: SpectrumSource, tests: Tests) -> int:
    """Check the lists against each set tested by itself; count those that are allowed.

    The conditions beside the users' test must have taken some away.
    """
    apis = found.policy.candidates
    held = {
        each: tests.allows(source.spectrum(each), len(each))
        for size in range(1, len(apis) + 1)
        for each in itertools.combinations(apis, size)
    }
    plain = {each: tests.allow.holds(source.spectrum(each), len(each)) for each in held}
    assert found.complete
    assert {each: found.verdict(each)[0] == "allow" for each in held} == held
    assert sum(plain.values()) > sum(held.values())
    return sum(held.values())
