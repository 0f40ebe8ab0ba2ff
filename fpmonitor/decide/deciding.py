"""Deciding: the border search with the certificate, and the test of an old decision on new data."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import islice, starmap
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from fpmonitor.decide.asked import Search
from fpmonitor.decide.best import best_set
from fpmonitor.decide.decision import ApiSet, BestSearch, Cut, Decision
from fpmonitor.decide.declared import DeclaredVectors
from fpmonitor.decide.effort import INTERRUPTS, Effort
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.search import Borders, Sought, search
from fpmonitor.decide.utility import recommend, weight_bound
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.ceiling import users_possible
from fpmonitor.estimate.cohort_budget import CohortTest, Condition, cohort_test
from fpmonitor.estimate.criterion import Criterion, Refutation, Score
from fpmonitor.estimate.looks import Criteria, Drawing, decision_criteria, serving_of
from fpmonitor.estimate.realised import average_budget
from fpmonitor.estimate.sample_size import Forecast, users_needed
from fpmonitor.policy import NO_DEPARTURE, per_cent
from fpmonitor.population.beside import (
    USERS,
    days_in_words,
    draws_by_unit,
    unit_source,
    unit_spectrum,
    units_beside,
)
from fpmonitor.population.level_source import LevelSource
from fpmonitor.spectrum import CohortSpectrum, SpectrumSource

# Borders of 41 candidates, stopped after a minute, recommended 10 where the best set has 34.
MANY = 25  # candidates, above which the best set is searched before the borders
_CEILINGS = 40  # undecided sets of which a file says whether any test could decide them
_SECONDS = 60.0  # that a search of more candidates takes where no limit is given
# All that such a search found were 30 MB of sets, which nobody read.
_LISTED = 500  # sets of each list of so many candidates
_LISTED_PAIRS = 5000  # sets of one or two APIs of each, that are not allowed
_BEST, _POSSIBLE = 0.7, 0.7  # shares of the time that is left, for the two bounds
_BORDERS = 0.5  # of it, for the borders of levels, before their best vector is searched
_BIASES = (1.02, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.decide.decision import Proof, Verdict
    from fpmonitor.policy import LinkBudget, Policy
    from fpmonitor.spectrum import CountSpectrum


@INTERRUPTS.held()
def decide(source: SpectrumSource, open_decision: Decision, how: Search | None = None) -> Decision:
    """Decide all subsets of the candidates of a decision that has no answer yet.

    An interrupt (Ctrl-C) ends it with what is proven by then, also where that is nothing yet.

    Args:
        source: The observed users, over the candidates.
        open_decision: The question, and all that is noted of the users: see `Decision.begun`.
        how: How far sets are searched; by default to the end.

    Raises:
        InputError: The earlier decision answers another question, or was made of other data.
        PolicyError: The policy asks more than the data can carry, for example fewer than two users.
        UndecidableError: Nothing can be certified of so few users or of so large groups, or one set
            is certified both within and above the budget.
    """
    started, how, policy = time.perf_counter(), how or Search(), open_decision.policy
    if open_decision.is_exact and source.least is not None:
        raise InputError(
            "setting: groups of few users were masked, so their users cannot be counted",
            hint="ask without --mask, or certify: --setting population",
        )
    if open_decision.level is None and not open_decision.components and not open_decision.is_exact:
        open_decision = replace(open_decision, level=policy.delta)
    open_decision = _with_declared(open_decision, source)
    if how.known is not None:
        check_same(how.known, open_decision)
    sought = _Sought.of(open_decision, how)
    tests: Tests | None = None
    proven: Borders | None = None
    with suppress(KeyboardInterrupt), INTERRUPTS.passing():
        # Never those of a file: others may have made it, or another version of a library.
        tests = tests_of(open_decision, source)
        if how.known is not None:
            proven = _proven(how.known, source, tests).without(open_decision.no_evidence)
        if tests.declared is not None:
            proven = tests.declared.borders(source, sought, proven or Borders.nothing())
    if not (open_decision.is_exact or tests is None or tests.proof):
        raise _nothing_certified(policy, source.users)
    if tests is not None and open_decision.policy.cohorts is not None:
        _check_cohorts(open_decision.policy, open_decision.policy.cohorts.given, source, tests)
    before = None if how.known is None else how.known.search
    if tests is None:
        found = sought.unsearched(source.apis, proven or Borders.nothing(), before)
    else:
        is_long = sought.best_first or sought.has_levels
        limit = _SECONDS if is_long and how.time_limit is None else how.time_limit
        effort = Effort.of(limit, how.progress)
        found = _search(source, tests, sought, known=proven, before=before, effort=effort)
    decided = _answered(open_decision, source, tests, sought, found)
    with suppress(KeyboardInterrupt), INTERRUPTS.passing():  # what was searched is kept
        if not open_decision.is_exact:
            decided = replace(
                decided, users_possible=possible_of(source, decided, decided.undecided)
            )
        if how.forecast:
            decided = replace(decided, **forecast_of(source, decided, decided.undecided))
        if how.tolerance and not open_decision.is_exact:
            decided = replace(decided, bias_tolerated=_bias_tolerated(source, decided))
    decided = replace(decided, seconds=round(time.perf_counter() - started, 3))
    return replace(decided, guarantee=guarantee(decided))


def _with_declared(open_decision: Decision, source: SpectrumSource) -> Decision:
    """Return a decision that notes at which levels its users showed declared values alone."""
    if not isinstance(source, LevelSource) or DeclaredVectors.of(open_decision) is None:
        return open_decision
    return replace(open_decision, declared=source.declared)


def _check_cohorts(
    policy: Policy, given: Iterable[str], source: SpectrumSource, tests: Tests
) -> None:
    """Refuse cohorts by which nothing can be allowed.

    Raises:
        UndecidableError: What tells cohorts exposes too many by itself, or see
            `CohortTest.check_decides`.
    """
    for condition in tests.conditions:
        if isinstance(condition.test, CohortTest):
            condition.test.check_decides(source.users)
    alone = unit_source(source, USERS).spectrum(())
    if isinstance(alone, CohortSpectrum) and tests.above(alone, 1, least=False):
        raise UndecidableError(
            f"given: {' and '.join(given)} alone exposes more than {per_cent(policy.budget)} % of "
            "the users",
            hint="name what has fewer values, or a larger --budget",
        )


def _answered(
    open_decision: Decision,
    source: SpectrumSource,
    tests: Tests | None,
    sought: _Sought,
    found: _Found,
) -> Decision:
    """Return a decision with what was found, and the set that is recommended of it."""
    borders, lattice = found.borders, open_decision.lattice
    # Of levels that are as useful the larger rank: users see more, and the limit was met.
    criterion = None if sought.has_levels or tests is None else tests.allow
    users = unit_source(source, USERS)
    best = recommended_of(borders.allow, users, criterion, weights=sought.weights)
    utility = lattice.utility_of(best) if borders.allow else 0.0
    bound = utility
    if not borders.complete:
        # Solvers bound up to a tolerance, and a file whose utility is above its bound is refused.
        bound = max((found.bound or 0.0) + lattice.withheld, utility)
    cut = None
    if sought.max_sets is not None or sought.best_first:
        most = (sought.max_sets or _LISTED, sought.max_sets or _LISTED_PAIRS)
        first = [best, *found.diverse]
        borders, cut = _cut(borders, *most, first=first, weights=sought.weights)
    return replace(
        open_decision,
        users=source.users,
        proof=(None if open_decision.is_exact else {}) if tests is None else tests.proof,
        allow=lattice.listed(apis for apis in borders.allow if apis or sought.has_levels),
        block=lattice.listed(without_empty(borders.block)),
        undecided=lattice.listed(without_empty(borders.undecided)),
        recommended=lattice.finest(best),
        utility=utility,
        utility_bound=bound,
        utility_possible=None if found.possible is None else found.possible + lattice.withheld,
        search=None if borders.complete else found.best,
        complete=borders.complete,
        cut=cut,
        evaluated=found.evaluated,
    )


_SAME_POLICY = (
    *("k", "population", "budget", "delta", "realised", "sample", "candidates"),
    *("cohorts", "links", "visits"),
)
_SAME = (
    *("digest", "tested_at", "setting", "missing", "universe", "first_names", "design"),
    "components",
)
# Members that whoever asks calls otherwise, by an option most of them.
_CALLED = {
    "cohorts": "given",
    "components": "levels",
    "design": "design-share",
    "digest": "data",
    "links": "link-budget",
    "tested_at": "level",
    "visits": "unit",
}
_PARTS = {
    "cohorts": {
        "given": "given",
        "budget": "budget-each",
        "least_share": "least-share",
        "worst_share": "worst-share",
        "menu": "given-menu",
    },
    "links": {"budget": "link-budget", "after": "after"},
}


def check_same(known: Decision, open_decision: Decision) -> None:
    """Check that an earlier decision answers the same question on the same data.

    Raises:
        InputError: It answers another question, or was made of other data.
    """
    differing = [
        option
        for before, now, names in (
            (known.policy, open_decision.policy, _SAME_POLICY),
            (known, open_decision, _SAME),
        )
        for name in names
        for option in _differing(name, getattr(before, name), getattr(now, name))
    ]
    if (known.proof is None) != open_decision.is_exact:
        differing.append("proof")
    if differing:
        raise InputError(
            f"resume: the decision file differs in {', '.join(differing)}",
            hint="only the same question on the same data can be resumed",
        )


def _differing(name: str, before: Any, now: Any) -> list[str]:
    """Name the options by which a member differs."""
    if before == now:
        return []
    if name not in _PARTS or before is None or now is None:
        return [_CALLED.get(name, name)]
    parts = _PARTS[name].items()
    return [option for part, option in parts if getattr(before, part) != getattr(now, part)]


def _proven(known: Decision, source: SpectrumSource, tests: Tests) -> Borders:
    """Return what an earlier decision proves: of its lists what passes the tests again."""

    def those(
        source: SpectrumSource,
        sets: Sequence[ApiSet],
        holds: Callable[[CountSpectrum, int], bool],
    ) -> list[ApiSet]:
        # With what comes along, as limits are by the number of all that is shown.
        closed = [tuple(sorted(known.lattice.closed(apis))) for apis in sets]
        spectra = zip(closed, source.spectra(sets), strict=True)
        return [apis for apis, spectrum in spectra if holds(spectrum, len(apis))]

    least = source.least
    allow = those(source, known.allow, tests.allows)
    above = partial(tests.above, least=least is not None)
    block = those(least or source, known.block, above)
    refused = those(source, known.undecided, lambda *of: not tests.allows(*of))
    lists = (known.allow, known.block, known.undecided)
    # A file that claims one set too many is not believed to have searched all.
    is_whole = [*map(len, lists)] == [*map(len, (allow, block, refused))]
    return Borders(
        allow=allow,
        block=block,
        undecided=refused,
        complete=known.complete and is_whole,
        evaluated=known.evaluated,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sought(Sought):
    """Which sets are searched, and how: see `decide`."""

    max_sets: int | None
    best_first: bool
    has_levels: bool

    @classmethod
    def of(cls, open_decision: Decision, how: Search) -> Self:
        """Return what a decision asks."""
        lattice, has_levels = open_decision.lattice, bool(open_decision.components)
        never = {*open_decision.never, *open_decision.no_evidence, *lattice.beyond}
        is_plain = how.max_size is None and not has_levels
        return cls(
            weights=lattice.utilities,
            must=sorted(lattice.closed({*open_decision.must, *lattice.lowest})),
            never=never,
            max_size=how.max_size,
            max_sets=how.max_sets,
            best_first=is_plain and len({*open_decision.policy.candidates} - never) > MANY,
            has_levels=has_levels,
            along=lattice.closed,
        )

    def bound(self, apis: Iterable[str], refused: Sequence[ApiSet]) -> float:
        """Weight that none exceeds which holds no refused set."""
        return weight_bound(self.free(apis), refused, self)

    def unsearched(self, apis: Sequence[str], known: Borders, before: BestSearch | None) -> _Found:
        """Return what is known before any search."""
        bound = self.bound(apis, [*known.block, *known.undecided])
        return _Found(known, bound, self.bound(apis, known.block), 0, [], before)


class _Found(NamedTuple):
    """Borders; what no allowed set and what no set within the budget exceeds; sets evaluated.

    The weights are null where nobody asked for them and the borders are complete. `diverse` are
    allowed sets that differ, where the best one was searched; `best` tells how far that came.
    """

    borders: Borders
    bound: float | None = None
    possible: float | None = None
    evaluated: int = 0
    diverse: Sequence[ApiSet] = ()
    best: BestSearch | None = None


def _search(
    source: SpectrumSource,
    tests: Tests,
    sought: _Sought,
    *,
    known: Borders | None,
    before: BestSearch | None,
    effort: Effort,
) -> _Found:
    """Search the borders; of many APIs and of levels the best set before, and what none exceeds."""
    found, whole = _Found(known or Borders.nothing()), source
    source = unit_source(whole, USERS)
    if sought.best_first:
        found = _best_first(source, tests, sought, found.borders, before=before, effort=effort)
    borders_of = partial(
        search,
        source,
        allow=tests.allow,
        block=tests.block,
        refute=tests.refute,
        sought=sought,
    )
    if sought.has_levels:
        if not effort.left:
            return sought.unsearched(source.apis, found.borders, before)
        # Borders of 3,000 vectors took 0.05 s.
        borders = borders_of(known=found.borders, effort=effort.part(_BORDERS))
        if borders.complete:
            return _Found(borders, evaluated=borders.evaluated)
        found = _best_first(source, tests, sought, borders, before=before, effort=effort)
        found = found._replace(evaluated=found.evaluated + borders.evaluated)
    if tests.conditions:
        borders = borders_of(known=found.borders, effort=effort.part(_BORDERS))
        borders = _keeping(whole, tests, sought, borders, effort)
    else:
        borders = borders_of(known=found.borders, effort=effort)
    bound, possible = found.bound, found.possible
    if not borders.complete:
        if bound is None:
            bound = sought.bound(source.apis, [*borders.block, *borders.undecided])
        if possible is None:
            possible = sought.bound(source.apis, borders.block)
    evaluated = found.evaluated + borders.evaluated
    return _Found(borders, bound, possible, evaluated, found.diverse, found.best)


def _keeping(
    source: SpectrumSource, tests: Tests, sought: _Sought, borders: Borders, effort: Effort
) -> Borders:
    """Return what is allowed also by conditions, each searched among what the others leave."""
    for condition in tests.conditions:
        # Sets that fail one condition need not be counted for the next.
        failing = [*borders.block, *borders.undecided]
        found = search(
            unit_source(source, condition.unit),
            allow=condition.test,
            block=condition.test,
            sought=sought,
            known=replace(Borders.nothing(), undecided=failing),
            effort=effort,
        )
        borders = borders.keeping(found)
    return borders


def _best_first(
    source: SpectrumSource,
    tests: Tests,
    sought: _Sought,
    known: Borders,
    *,
    before: BestSearch | None,
    effort: Effort,
) -> _Found:
    """Search the best set of many APIs, or the best levels."""
    searched = BestSearch(
        weights=sought.weights, must=tuple(sought.must), never=tuple(sorted(sought.never))
    )
    if before is None or not before.same(searched):
        before = searched
    best_of = partial(best_set, sought=sought, effort=effort, known=known.allow)
    limits = tests.allow.limits.tolist()
    best = best_of(source, tests.allow, limits, share=_BEST, reached=before.allow)
    possible, blocked, evaluated = None, list[ApiSet](), best.evaluated
    if tests.refute is None:
        possible, blocked = best.bound, best.refused
    elif tests.refute.monotone:
        # No set within the budget is refuted, whatever its size, nor holds one that is.
        limits = tests.refute.limits.tolist()
        users = source.least or source
        least = best_of(users, tests.block, limits, share=_POSSIBLE, reached=before.possible)
        searched = replace(searched, possible=least.reached)
        possible, blocked, evaluated = least.bound, least.refused, evaluated + least.evaluated
    borders = replace(
        known,
        allow=[*known.allow, *best.sets],
        block=[*known.block, *blocked],
        undecided=[*known.undecided, *best.refused],
    )
    if sought.has_levels:  # exact limits allow vectors that scores do not
        borders = borders.proving([], [], evaluated=0)
    searched = replace(searched, allow=best.reached)
    return _Found(borders, best.bound, possible, evaluated, best.sets, searched)


def _cut(
    borders: Borders,
    most: int,
    most_pairs: int,
    *,
    first: Sequence[ApiSet],
    weights: Mapping[str, float],
) -> tuple[Borders, Cut | None]:
    """Keep so many sets of each list, of those that are not allowed so many of one or two APIs.

    Of the allowed ones `first`, then for each API one that holds it, and those of the greatest
    utility; of the others the smallest. Say how many there were where a list was cut.
    """

    def utility(apis: ApiSet) -> float:
        return math.fsum(weights.get(api, 1.0) for api in apis)

    def smallest_of(sets: Sequence[ApiSet]) -> list[ApiSet]:
        pairs = sum(len(apis) <= 2 for apis in sets)
        smallest = sorted(sets, key=lambda apis: (len(apis), apis))
        return sorted(smallest[: max(most, min(pairs, most_pairs))])

    best = sorted(
        borders.allow,  # the recommended set before all others, however few are kept
        key=lambda apis: (apis != first[0], apis not in first, -utility(apis), apis),
    )
    # Else an API in no set that is kept is said not to be allowed alone, as userAgent was.
    covered_apis, chosen = set[str](), list[ApiSet]()
    for apis in best:
        if apis in first or not covered_apis.issuperset(apis):
            covered_apis.update(apis)
            chosen.append(apis)
    cut_borders = replace(
        borders,
        allow=sorted([*dict.fromkeys((*chosen, *best))][:most]),
        block=smallest_of(borders.block),
        undecided=smallest_of(borders.undecided),
    )
    cut = _cut_of(borders, cut_borders)
    return replace(cut_borders, complete=borders.complete and cut is None), cut


def _cut_of(whole: Borders, cut_borders: Borders) -> Cut | None:
    """Return how many sets were found where a list was cut."""
    lists = [(each.allow, each.block, each.undecided) for each in (whole, cut_borders)]
    if [*map(len, lists[0])] == [*map(len, lists[1])]:
        return None
    allow, block, undecided = (len(without_empty(sets)) for sets in lists[0])
    return Cut(allow=allow, block=block, undecided=undecided, searched=whole.complete)


def forecast_of(
    source: SpectrumSource, decision: Decision, undecided: Iterable[ApiSet]
) -> dict[str, Any]:
    """Users that would decide each set, as a decision has them: none where nothing is estimated."""
    level, policy = decision.tested_at, decision.policy
    found: tuple[Forecast, ...] = ()
    if level is not None:
        found = users_needed(
            ((source.spectrum(apis), len(apis)) for apis in undecided),
            lambda users: decision_criteria(
                users=users,
                k=policy.k,
                population=policy.population,
                budget=policy.budget,
                delta=level,
                universe=decision.universe or len(policy.candidates),
                drawing=Drawing(look=policy.sample.look and "later", first=decision.first_names),
                whole_menu=False,
            ),
            users=source.users,
            population=policy.population,
            generator=np.random.default_rng(0),  # the same forecast whenever it is made
        )
    return {
        "users_needed": tuple(each.mean for each in found),
        "users_range": tuple((each.low, each.high) for each in found),
    }


def possible_of(
    source: SpectrumSource, decision: Decision, undecided: Iterable[ApiSet]
) -> tuple[int | None, ...] | None:
    """Users from whom on any test could decide each of the first sets: `ceiling`."""
    policy = decision.policy
    # The ceiling is of one plain test of the average: docs/certificate/ceiling.md.
    if policy.realised or policy.delta is None or policy.sample.departure != NO_DEPARTURE:
        return None
    if policy.has_conditions or policy.by_visits:
        return None
    possible = users_possible(
        map(source.spectrum, islice(undecided, _CEILINGS)),
        users=source.users,
        k=policy.k,
        population=policy.population,
        budget=policy.budget,
        delta=policy.delta,
    )
    return tuple(possible)


def _bias_tolerated(source: SpectrumSource, decision: Decision) -> tuple[float, ...]:
    """Return the largest bias of a fixed list up to which each allowed set passes all tests.

    A set that passes wrongly does so at the first bias of the list that the sample does not exceed:
    as that is one test, the whole list holds at the level of one.
    """
    found = dict.fromkeys(decision.allow, decision.policy.sample.bias)
    passing = list(found)
    for bias, tests in _biased_tests(decision, source.users):
        spectra = ((apis, source.spectrum(apis)) for apis in passing)
        passing = [apis for apis, spectrum in spectra if tests.allows(spectrum, len(apis))]
        if not passing:
            break
        found |= dict.fromkeys(passing, bias)
    return tuple(found.values())


def _biased_tests(decision: Decision, users: int) -> Iterator[tuple[float, Tests]]:
    policy = decision.policy
    for bias in _BIASES:
        if bias > policy.sample.bias:
            sample = replace(policy.sample, bias=bias)
            biased = replace(decision, policy=replace(policy, sample=sample))
            yield bias, tests_of(biased, users)


def tolerance_proofs(decision: Decision) -> Iterator[tuple[float, Proof]]:
    """Make the tests again by which the tolerated biases of a decision were found.

    By each bias of the list, up to the largest that a set is said to tolerate.
    """
    if not decision.bias_tolerated:
        return
    most = max(decision.bias_tolerated)
    for bias, tests in _biased_tests(decision, decision.users):
        if bias > most or not tests.proof:
            break
        yield bias, tests.proof


def recheck(
    decision: Decision, source: SpectrumSource, others: Sequence[ApiSet] = ()
) -> dict[ApiSet, Verdict]:
    """Test every set on the allow list of a decision again, on the current users.

    A set of the list is above the budget that is so by any unit that must keep it.

    Args:
        decision: The decision; its policy and setting are kept.
        source: The current users, as in `decide`.
        others: Sets that are not on its list, which are tested as it was decided.
    """
    least, tests = source.least, judging(decision, source)
    refuting = _refuting(decision, tests)
    found: dict[ApiSet, Verdict] = {}
    for apis in (*decision.allow, *others):
        spectrum, lowest = source.spectrum(apis), None if least is None else least.spectrum(apis)
        found[apis] = tests.verdict(apis, spectrum, lowest)
        if refuting and found[apis] != "allow" and apis not in others:
            told = lowest or spectrum
            above = any(
                (test.monotone or lowest is None)
                and test.refutes(unit_spectrum(told, unit), len(apis))
                for unit, test in refuting.items()
            )
            found[apis] = "block" if above else "undecided"
    return found


def _refuting(decision: Decision, tests: Tests) -> dict[str, Refutation]:
    """Return what shows by each of two units that a set is above the budget, at half the level.

    Lists are allowed by both at the whole level, but each of them may find a violation wrongly.
    """
    policy, refute, units = decision.policy, tests.refute, draws_by_unit(decision.policy)
    if refute is None or len(units) == 1:
        return {}
    # Limits are nats, and weights those of the mean over the draws of the first unit.
    halved, weights = replace(refute, limits=refute.limits + math.log(2)), refute.score.weights
    return {
        unit: replace(halved, score=replace(refute.score, weights=weights * (policy.draws / draws)))
        for unit, draws in units.items()
    }


def judging(decision: Decision, users: SpectrumSource | int) -> Tests:
    """Make the tests by which any set of candidates is judged by itself, for a number of users.

    The probability of the guarantee is that no set at all is allowed wrongly, so it also holds for
    those that are asked for one after another, whatever the answers were.

    Raises:
        InputError: The tests of the decision are of parts of the users.
    """
    if decision.confirmation is not None:
        raise InputError(
            "the decision was searched among some users and confirmed on the others, once",
            hint="decide anew with --search-users; the lists of the decision hold as they are",
        )
    return tests_of(decision, users)


class UnitTest(NamedTuple):
    """A condition of sets: what is tested, and of which unit beside the users: see `beside`."""

    unit: str
    test: Condition

    def holds(self, spectrum: CountSpectrum, size: int) -> bool:
        """Whether a set of `size` APIs keeps it."""
        return self.test.holds(unit_spectrum(spectrum, self.unit), size)


class Tests(NamedTuple):
    """What sets are allowed and blocked by: see `Criteria`; and the proof, for a population.

    Level vectors may be decided by exact limits alone: `declared`.
    """

    allow: Criterion
    block: Criterion
    refute: Refutation | None = None
    proof: Proof | None = None
    conditions: tuple[UnitTest, ...] = ()
    declared: DeclaredVectors | None = None

    def allows(self, spectrum: CountSpectrum, size: int) -> bool:
        """Whether a set is within the budget, and keeps all conditions, each at the whole level."""
        return self.allow.holds(spectrum, size) and all(
            condition.holds(spectrum, size) for condition in self.conditions
        )

    def above(self, spectrum: CountSpectrum, size: int, *, least: bool) -> bool:
        """Whether a set is above the budget; `least`: by the least that its spectrum may be."""
        if self.refute is None:
            return not self.block.holds(spectrum, size)
        return (self.refute.monotone or not least) and self.refute.refutes(spectrum, size)

    def verdict(
        self, apis: Collection[str], spectrum: CountSpectrum, least: CountSpectrum | None = None
    ) -> Verdict:
        """Judge a set and all that comes along; by `least` it is blocked, where others see less."""
        if self.allows(spectrum, len(apis)):
            return "allow"
        above = self.above(least or spectrum, len(apis), least=least is not None)
        # Exact limits are of all users: others are told a part of the groups.
        by_users = self.declared if least is None else None
        exact = None if by_users is None else by_users.verdict(apis, spectrum)
        return exact or ("block" if above else "undecided")


def tests_of(decision: Decision, counted: SpectrumSource | Mapping[str, int] | int) -> Tests:
    """Design the tests of a decision for some users, never those that its file holds.

    Of sets of candidates by their size; of levels by their rank, for one look where some were
    designed from users. `tested_at` is what the tests share of delta. A number of users is enough
    where no other unit than theirs is asked of, or the numbers of all units: see `beside`.
    """
    policy, lattice, level = decision.policy, decision.lattice, decision.scored_at
    shown = counted.declared if isinstance(counted, LevelSource) else {}
    if isinstance(counted, SpectrumSource):
        counted = {USERS: counted.users, **units_beside(counted)}
    beside = {USERS: counted} if isinstance(counted, int) else counted
    users = beside[USERS]
    chains = lattice.chains
    largest = len(decision.asked) if chains is None else sum(chains)
    # Ranks begin at the lowest vector, whose levels a search counts as members of every set.
    base = len(lattice.closed(lattice.lowest))
    if level is None:
        criterion = exact_criterion(policy, users, base + largest)
        return Tests(criterion, criterion)
    declared = None if decision.declared is None else DeclaredVectors.of(decision)
    criteria, proof = _of_users(decision, users, level, largest)
    if declared is not None and proof:
        proof["allow"]["declared"] = declared.to_json()
    block, refute = criteria.block, criteria.refute
    if chains is not None and refute.monotone:  # ranks are larger than sets: search to the end
        block = replace(block, largest=None)
    if proof and decision.days is not None:
        proof["allow"]["days"] = [*map(str, decision.days)]
    conditions = _conditions(decision, users, beside, proof["allow"]) if proof else []
    allow = criteria.allow
    by_unit = {
        unit: replace(allow, score=allow.score.mean_of(draws))
        for unit, draws in draws_by_unit(policy).items()
    }
    allow = by_unit.pop(USERS)
    conditions += starmap(UnitTest, by_unit.items())
    block = replace(block, score=block.score.mean_of(policy.draws))
    refute = replace(refute, score=refute.score.mean_of(policy.draws))
    return Tests(
        _from(base, allow),
        _from(base, block),
        replace(refute, limits=_limits_from(base, refute.limits)),
        proof,
        tuple(conditions),
        None if declared is None else replace(declared, levels=shown),
    )


def _of_users(
    decision: Decision, users: int, level: float, largest: int
) -> tuple[Criteria, dict[str, Any]]:
    """Design the tests of the users' exposure, of sets up to a size; and tell how to prove them."""
    policy, average = decision.policy, None
    if policy.realised:  # half of delta for the population, half for the observed users
        average = average_budget(
            k=policy.k,
            population=policy.population,
            budget=policy.budget,
            delta=level / 2,
            candidates=len(policy.candidates),
        )
    criteria = decision_criteria(
        users=users,
        k=policy.k,
        population=policy.population,
        budget=policy.budget if average is None else (average.exposure, policy.budget),
        delta=level if average is None else (level / 2, level),
        universe=decision.lattice.chains or decision.universe or largest,
        drawing=_drawing(decision, users),
    )
    proof = criteria.proofs(largest)
    if average is not None and proof:
        proof["allow"] |= {"average": average._asdict()}
    return criteria, proof


def _drawing(decision: Decision, users: int) -> Drawing:
    drawing = Drawing.of(decision.policy.sample, users, decision.first_names)
    return drawing if decision.design is None else replace(drawing, expected=users)


def _conditions(
    decision: Decision, users: int, beside: Mapping[str, int], proof: dict[str, Any]
) -> list[UnitTest]:
    """Design the tests of cohorts and links, each at the whole level; they are noted in a proof."""
    policy, level = decision.policy, decision.tested_at
    found: list[UnitTest] = []
    universe = decision.universe or len(policy.candidates)
    if level is None:
        return found
    if policy.cohorts is not None:
        cohorts = cohort_test(
            policy.cohorts,
            users=users,
            k=policy.k,
            population=policy.population,
            delta=proof["delta"],
            universe=universe,
            drawing=_drawing(decision, users),
        )
        proof["cohorts"] = {"given": list(policy.cohorts.given), **cohorts.to_json()}
        found.append(UnitTest(USERS, cohorts))
    if policy.links is not None:
        tests, proof["links"] = _link_tests(decision, policy.links, level, beside)
        found += tests
    return found


def _link_tests(
    decision: Decision, links: LinkBudget, level: float, beside: Mapping[str, int]
) -> tuple[list[UnitTest], list[dict[str, Any]]]:
    """Design the test of each time after which links are limited, or of all visits; prove each."""
    policy = decision.policy
    tests, told = list[UnitTest](), list[dict[str, Any]]()
    for days in links.after or (None,):
        unit = USERS if days is None else days_in_words(days)
        criteria, proofs = None, {}
        if (counted := beside.get(unit, 0)) > 1:
            criteria = decision_criteria(
                users=counted,
                k=None,
                population=policy.population,
                budget=links.budget,
                delta=level,
                universe=decision.universe or len(policy.candidates),
            )
            proofs = criteria.proofs(len(decision.asked))
        if criteria is None or not proofs:
            raise _too_few_to_link(counted, days)
        of: dict[str, Any] = {"after": days, "function": "linked"}
        if days is not None and decision.days is not None:
            of["days"] = [*map(str, decision.days)]
        told.append({**of, **proofs["allow"]})
        score = criteria.allow.score.mean_of(policy.draws if days is None else 1)
        tests.append(UnitTest(unit, replace(criteria.allow, score=score)))
    return tests, told


def _too_few_to_link(counted: int, days: float | None) -> UndecidableError:
    if days is None:
        words = f"link-budget: {counted:,} users are too few to decide anything"
        return UndecidableError(words, hint="ask of more users")
    words = f"after: {counted:,} users came back after {days:g} days, too few to decide"
    return UndecidableError(words, hint="ask of more users, or for other days")


def _from(base: int, criterion: Criterion) -> Criterion:
    largest = criterion.largest
    return replace(
        criterion,
        limits=_limits_from(base, criterion.limits),
        largest=None if largest is None else base + largest,
    )


def _limits_from(base: int, limits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Limits by all levels that are shown, of which those up to a base are shown in any case.

    The rank of the lowest vector is 0 only where it withholds everything, and all are alike.
    """
    if not base:
        return limits
    return limits[[*[min(1, len(limits) - 1)] * (base + 1), *range(1, len(limits))]]


def _nothing_certified(policy: Policy, users: int) -> UndecidableError:
    """Say why no set of any kind can be certified."""
    sample = policy.sample
    expected, look = sample.expected(users), sample.look
    if serving_of(users, sample.fake_share, expected, look=look)[0] is None:
        return UndecidableError(
            f"{users} users are too few to decide anything",
            hint=f"{21 if look == 'first' else 23} are the fewest, and even if all are alike, they "
            "meet large budgets only",
        )
    return UndecidableError(
        f"{policy.k:,} of {policy.population:,} users are as many as "
        f"{users * policy.k // policy.population:,} of the observed ones: too many for the tables "
        "of the certificate",
        hint="a larger --population, a smaller --k or a window of fewer users decides",
    )


def exact_criterion(policy: Policy, users: int, largest: int | None = None) -> Criterion:
    """Count the users in groups smaller than k; the limit is the whole number within the budget.

    For sets of at most `largest` APIs, by default of all candidates.
    """
    largest = len(policy.candidates) if largest is None else largest
    # No group has more than all users: a file may ask for a k of 10^10, a table of 80 GB.
    weights = np.ones(min(policy.k, users + 1) + 1)
    # Counts beyond the end have the last weight: all groups of k and more add nothing.
    weights[-1] = 0
    # The budget is the decimal number that was written: 0.29 of 100 users are 29, not 28.
    limit = math.floor(Fraction(repr(policy.budget)) * users)
    return Criterion(Score(weights), np.full(largest + 1, float(limit)))


def recommended_of(
    allow: Iterable[ApiSet],
    source: SpectrumSource,
    criterion: Criterion | None,
    *,
    weights: Mapping[str, float],
) -> ApiSet:
    """Recommend an allowed set: of equal utility the one that a test sees furthest from its limit.

    An interrupt ends the look at the users: the set is one of the greatest utility all the same. So
    it is where nothing was tested.
    """

    def share_of_limit(sets: Sequence[ApiSet]) -> list[float]:
        if criterion is None:
            return [0.0] * len(sets)
        with suppress(KeyboardInterrupt), INTERRUPTS.passing():
            return [
                criterion.score(spectrum) / (float(criterion.limits[len(apis)]) or 1.0)
                for apis, spectrum in zip(sets, source.spectra(sets), strict=True)
            ]
        return [0.0] * len(sets)

    return recommend(allow, weights=weights, exposure=share_of_limit)


def without_empty(sets: Iterable[ApiSet]) -> tuple[ApiSet, ...]:
    """Return the sets as a decision lists them: the empty one is always allowed, and not listed."""
    return tuple(apis for apis in sets if apis)
