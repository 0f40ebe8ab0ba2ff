"""Deciding how coarse each API may be: level vectors within the budget, one delta for all."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from operator import add
from typing import TYPE_CHECKING, Any, Self

from fpmonitor.decide.deciding import tests_of_vectors
from fpmonitor.decide.effort import INTERRUPTS, Effort
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.level_decision import LevelDecision
from fpmonitor.decide.vectors import BestVector, VectorSearch
from fpmonitor.population.levels import is_below

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fpmonitor.decide.deciding import Tests
    from fpmonitor.decide.decision import Setting, Verdict
    from fpmonitor.decide.level_decision import DesignPart
    from fpmonitor.policy import Policy
    from fpmonitor.population.level_source import LevelSource
    from fpmonitor.population.levels import Component, Vector
    from fpmonitor.question import Missing
    from fpmonitor.spectrum import CountSpectrum

SECONDS = 60.0  # that a search takes where no limit is given
_RECOMMENDING, _ALLOWING = 0.5, 0.7  # shares of the time that is left


@INTERRUPTS.held()
def decide_levels(
    users: LevelSource,
    components: Sequence[Component],
    policy: Policy,
    *,
    seal: str,
    setting: Setting = "population",
    time_limit: float | None = None,
    progress: Callable[[str], None] | None = None,
    known: LevelDecision | None = None,
    missing: Missing = "value",
    design: DesignPart | None = None,
    **told: Any,
) -> LevelDecision:
    """Decide all level vectors of some components, fixed before the users were seen.

    Parameters
    ----------
    users
        Those who were observed.
    components
        As of `users`.
    policy
        The question; its candidates are the APIs of the components.
    seal
        The digest of the data as the decision may tell it.
    setting
        See `Decision`.
    time_limit
        Seconds after which the search stops; what is proven stays valid. A minute by default.
    progress
        Told now and then in words how far the search is.
    known
        An earlier decision of the same question on the same data: what it proves is not computed
        again.
    missing
        See `Decision`; noted only.
    design
        From whom levels were designed; such a question is asked once.
    told
        Further members of the decision, noted only.

    Raises
    ------
    InputError
        `known` answers another question, or was made of other data.
    PolicyError
        The policy asks more than the data can carry.
    UndecidableError
        Nothing can be certified of so few users or of so large groups.
    KeyboardInterrupt
        An interrupt before the search; a later one ends it like the time limit.
    """
    started = time.perf_counter()
    if known is not None:
        known.check_same(
            policy=policy,
            components=tuple(components),
            setting=setting,
            missing=missing,
            digest=seal,
            design=design,
        )
    with INTERRUPTS.passing():
        judge = _Judge.of(components, policy, setting, users, once=design is not None)
    utilities = [
        component.utility[component.least : component.most + 1] for component in components
    ]
    effort = Effort.of(SECONDS if time_limit is None else time_limit, progress)
    allowing = VectorSearch(judge.chains, judge.allows, effort)
    blocking = allowing
    if judge.tests.refute is not None:
        blocking = VectorSearch(judge.chains, lambda above: not judge.blocks(above), effort)
    if known is not None:  # what passes the tests again: others may have made the file
        refused = [*map(judge.above, known.block)]
        blocking.learn([], filter(judge.blocks, refused))
        refused += map(judge.above, known.undecided)
        allowing.learn(
            filter(judge.allows, map(judge.above, known.allow)),
            [above for above in refused if not judge.allows(above)],
        )
    best = BestVector.unknown(judge.chains, utilities)
    bottom = (0,) * len(components)
    with effort.until_stopped():
        if allowing.passes(bottom):
            best.offer(bottom, utilities)
            with effort.within(_RECOMMENDING):
                allowing.best(utilities, best)
        with effort.within(_ALLOWING):
            allowing.borders()
        blocking.borders()
    for vector in allowing.passed:
        best.offer(vector, utilities)
    if allowing.complete:
        best.bound = best.utility
    blocked = [*map(judge.levels, blocking.failed)]
    refused = [*map(judge.levels, allowing.failed)]
    decided = LevelDecision(
        components=tuple(components),
        policy=policy,
        setting=setting,
        missing=missing,
        design=design,
        users=users.users,
        digest=seal,
        guarantee="",
        allow=tuple(map(judge.levels, allowing.passed)),
        block=tuple(blocked),
        undecided=tuple(
            vector for vector in refused if not any(is_below(each, vector) for each in blocked)
        ),
        recommended=None if best.vector is None else judge.levels(best.vector),
        utility=best.utility,
        utility_bound=best.bound,
        complete=allowing.complete and blocking.complete,
        evaluated=allowing.tested + (0 if blocking is allowing else blocking.tested),
        seconds=round(time.perf_counter() - started, 3),
        proof=judge.tests.proof,
        **told,
    )
    return replace(decided, guarantee=guarantee(decided))


def judge_levels(decision: LevelDecision, users: LevelSource, vector: Vector) -> Verdict:
    """Judge a level vector by itself, by the tests of a decision.

    The probability of the guarantee is that no vector at all is allowed wrongly, so it also holds
    for those that are asked for one after another.
    """
    judge = _Judge.of(
        decision.components,
        decision.policy,
        decision.setting,
        users,
        once=decision.design is not None,
    )
    above = judge.above(vector)
    if not is_below(above, judge.chains):
        return "undecided"
    if judge.allows(above):
        return "allow"
    return "block" if judge.blocks(above) else "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """Tests of level vectors, told by how far they are above the lowest."""

    users: LevelSource
    tests: Tests
    lowest: Vector
    chains: Vector

    @classmethod
    def of(
        cls,
        components: Sequence[Component],
        policy: Policy,
        setting: Setting,
        users: LevelSource,
        *,
        once: bool,
    ) -> Self:
        """Make the tests, never those that a decision file holds."""
        chains = tuple(component.most - component.least for component in components)
        return cls(
            users=users,
            tests=tests_of_vectors(policy, setting, users.users, chains, once=once),
            lowest=tuple(component.least for component in components),
            chains=chains,
        )

    def levels(self, above: Vector) -> Vector:
        return tuple(map(add, self.lowest, above))

    def above(self, levels: Vector) -> Vector:
        return tuple(
            max(level - least, 0) for level, least in zip(levels, self.lowest, strict=True)
        )

    def allows(self, above: Vector) -> bool:
        return self.tests.allow.holds(self._spectrum(above), self._rank(above))

    def blocks(self, above: Vector) -> bool:
        return self.tests.above(self._spectrum(above), self._rank(above), least=False)

    def _spectrum(self, above: Vector) -> CountSpectrum:
        return self.users.spectrum(self.levels(above))

    def _rank(self, above: Vector) -> int:
        """Rank of a vector; that of the lowest is 0 only where all is withheld, and all alike."""
        return max(sum(above), int(any(self.lowest)))
