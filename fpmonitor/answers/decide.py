"""Decisions on a population: which API sets are allowed, and whether they still are."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from fpmonitor.answers.unions import unions_asked
from fpmonitor.answers.visits import beyond_last, unit_decided_by
from fpmonitor.decide.confirming import borders_with_others, confirm, on_others
from fpmonitor.decide.credible import not_credible
from fpmonitor.decide.deciding import (
    MANY,
    Tests,
    check_same,
    decide,
    judging,
    recheck,
    tests_of,
    without_empty,
)
from fpmonitor.decide.decision import Decision, DesignPart, Scope
from fpmonitor.decide.designs import alternatives, design
from fpmonitor.decide.effort import INTERRUPTS
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.lattice import Lattice
from fpmonitor.decide.questions import AskedQuestion, level_of
from fpmonitor.decide.view_weight import SEARCH_SHARE
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.policy import Policy, check_share, disclosed_from, universe_of
from fpmonitor.population.beside import USERS, SourceBeside, unit_source, units_beside
from fpmonitor.population.evidence import lack_in_words
from fpmonitor.population.level_source import level_source
from fpmonitor.population.levels import check_components, finest
from fpmonitor.population.memory import MemorySource
from fpmonitor.population.visits import PathSource
from fpmonitor.question import Question
from fpmonitor.vocabulary import columns_of, known_apis, meaning, meanings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fpmonitor.decide.asked import DecideQuestion
    from fpmonitor.decide.decision import ApiSet, ByVisits, Confirmation, Verdict
    from fpmonitor.policy import CohortBudget
    from fpmonitor.population.evidence import Lack
    from fpmonitor.population.kept_values import ChosenValues
    from fpmonitor.population.levels import Component
    from fpmonitor.population.population import Population
    from fpmonitor.spectrum import SpectrumSource

_UNCONFIRMED = "interrupted before the sets were confirmed, so none is certified"


def decide_sets(
    population: Population,
    decide_question: DecideQuestion,
    *,
    registered: Collection[AskedQuestion] = (),
    counter: str = "duckdb",
) -> Decision:
    """Decide all subsets of the candidates, or all level vectors of some components.

    A decision goes to nobody but the owner as it is made; what leaves is the list.

    Args:
        registered: What was registered before the first user was stored.
        counter: What is noted where queries counted.
    """
    users, begun = _asked_of(population, decide_question, registered)
    if begun.components:
        decided = _decide_designed(users, replace(begun, engine="memory"), decide_question)
    elif (searched := decide_question.search_users) is not None:
        source, rest = users.searched_and_rest(searched, begun.policy.candidates)
        begun = replace(begun, engine="memory" if rest.in_memory else counter)
        decided = _confirmed(begun, source, rest, decide_question)
    else:
        decided = _decide_counted(users, begun, decide_question, counter)
    decided = replace(decided, made=datetime.now(UTC).date())
    # With the key of the data, so that gates refuse a file whose wishes were changed.
    return replace(decided, wishes=users.sealed(decided.wished))


def _asked_of(
    population: Population,
    decide_question: DecideQuestion,
    registered: Collection[AskedQuestion],
) -> tuple[Population, Decision]:
    """Return the users who are decided on, and a decision about them that has no answer yet."""
    if decide_question.visits in {"visit", "path", "both"}:
        _check_over(population.window.until)
    components = _components_of(population, decide_question)
    chosen = _candidates(population, decide_question, components)
    given = population.with_kinds(decide_question.given)[1]
    if given:
        chosen = _beside(chosen, given)
    if decide_question.search_users is not None and len(chosen) > MANY:
        raise InputError(f"search-users: is for up to {MANY} candidates, not {len(chosen)}")
    menu = population.with_kinds(decide_question.given_menu)[1]
    cohorts = decide_question.cohorts(given, menu)
    unit = unit_decided_by(population, decide_question, len(chosen), most=MANY)
    decide_question = replace(decide_question, visits=unit)
    users = population.for_question(decide_question.question, chosen)
    begun = _begun(population, users, decide_question, chosen, cohorts=cohorts)
    if components:
        begun = _of_levels(begun, components, decide_question)
    else:
        begun = _with_level(begun, population, registered, decide_question)
        begun = replace(begun, union_with=unions_asked(population, begun, decide_question))
        if begun.union_with:
            begun = _with_asked(begun, population)
    scope = Scope(about=begun.about, vocabulary=len(known_apis()), window_days=begun.window_days)
    begun = replace(begun, scope=scope)
    sample = users.model(decide_question.sample)  # after what may be registered
    if (
        begun.is_exact
        or decide_question.search_users is not None
        or decide_question.design_share is not None
    ):
        sample = replace(sample, look=None)  # exact, or decided once
    return users, replace(begun, policy=replace(begun.policy, sample=sample))


def _check_over(until: datetime | None) -> None:
    """Refuse a window to which visits are still to come: each changes what all visits tell."""
    if until is not None and until.replace(tzinfo=until.tzinfo or UTC) > datetime.now(UTC):
        raise UndecidableError(
            f"unit: the window until {until:%Y-%m-%d} is not over",
            hint="name an --until that has passed: later visits change what users' visits tell",
        )


def _with_asked(begun: Decision, population: Population) -> Decision:
    """Return a decision that notes of sets of other decisions what it notes of candidates.

    Levels for the names of the first log are of no set with another name.
    """
    known = begun.first_names is not None
    return replace(
        begun,
        names=population.names(begun.asked),
        coverage=population.coverage(begun.asked, begun.policy.k),
        first_names=population.first_of(begun.asked) if known else None,
    )


def _decide_counted(
    users: Population, begun: Decision, decide_question: DecideQuestion, counter: str
) -> Decision:
    """Decide on sets of all users, and look at what visits show of the recommended one."""
    candidates = begun.policy.candidates
    counted = users.source(candidates, decide_question.engine)
    if isinstance(counted, SourceBeside) and {*begun.asked} - {*candidates}:
        # Visits are drawn of those that brought anything that is asked of, also by other decisions.
        counted = users.source(begun.asked, decide_question.engine)
        counted = cast("SourceBeside", counted).selected(candidates)
    # Noted by the source that counted, whatever engine was asked for.
    in_memory = isinstance(unit_source(counted, USERS), MemorySource | PathSource)
    begun = replace(begun, engine="memory" if in_memory else counter)
    with INTERRUPTS.held():
        decided = decide(counted, begun, decide_question)
        with suppress(KeyboardInterrupt), INTERRUPTS.passing():  # what was searched is kept
            if not INTERRUPTS.noted:
                decided = replace(decided, by_visits=by_visits_of(users, decided, counted))
                decided = _with_unions(users, decided)
    return replace(decided, guarantee=guarantee(decided))


def _with_unions(users: Population, decided: Decision) -> Decision:
    """Return a decision with the verdict on each union with the set of another one."""
    if not decided.union_with:
        return decided
    judge = _judge_of(users, decided)
    found = []
    for one in decided.union_with:
        verdict = judge(decided.union(one.apis))
        found.append(replace(one, verdict="unknown" if verdict == "no evidence" else verdict))
    return replace(decided, union_with=tuple(found))


def _candidates(
    population: Population, decide_question: DecideQuestion, components: Sequence[Component]
) -> Sequence[str]:
    """Return what the log calls the APIs that are decided on."""
    if components:
        return [api for component in components for api in component.apis]
    named = decide_question.candidates
    return population.named(
        population.askable_apis(decide_question.question) if named is None else named
    )


def by_visits_of(users: Population, decided: Decision, counted: SpectrumSource) -> ByVisits | None:
    """Return what visits show of a recommended set where last values hide it: see `beyond_last`."""
    apis, k = decided.recommended, decided.policy.k
    if not apis or decided.policy.visits not in {"last", "last+visit"}:
        return None
    seen = unit_source(counted, USERS).spectrum(apis)
    return beyond_last(users, question_of(decided), apis, empirical_exposure(seen, k))


def _beside(chosen: Iterable[str], given: Sequence[str]) -> list[str]:
    """Return the candidates that sites do not see in any case."""
    beside = [api for api in chosen if api not in given]
    if not beside:
        raise InputError(
            f"given: there is no candidate beside {', '.join(given)}",
            hint="name others with --candidates",
        )
    return beside


def _confirmed(
    begun: Decision, source: SpectrumSource, rest: ChosenValues, decide_question: DecideQuestion
) -> Decision:
    """Search among some users, and confirm on the others what these left open."""
    # The rest of the level is for the tests on those who were not searched.
    begun = replace(begun, level=(begun.level or 0.0) * SEARCH_SHARE)
    decision = decide(source, begun, decide_question)
    if not decision.complete:
        raise KeyboardInterrupt(_UNCONFIRMED)
    try:
        return confirm(
            decision,
            source,
            rest,
            chains=decide_question.confirm_chains,
            progress=decide_question.progress,
        )
    except KeyboardInterrupt as end:
        raise KeyboardInterrupt(_UNCONFIRMED) from end


def _begun(
    population: Population,
    users: Population,
    decide_question: DecideQuestion,
    candidates: Iterable[str],
    *,
    cohorts: CohortBudget | None,
) -> Decision:
    """Return a decision that has no answer yet, with all that it notes of its users."""
    question = decide_question.question
    policy = Policy(
        k=question.k,
        population=users.users if question.counted else users.question(question).users,
        budget=decide_question.budget,
        delta=None if question.counted else question.delta,
        candidates=tuple(candidates),
        realised=decide_question.realised,
        sample=decide_question.sample,
        cohorts=cohorts,
        links=decide_question.links,
        visits=question.visits,
    )
    came_back = question.visits == "last" and population.came_back(question.k)
    drawn = None if decide_question.search_users is not None else users.drawn
    needed = (
        {"levels": policy.candidates}
        if decide_question.components
        else {"must": decide_question.must}
    )
    no_evidence, assumed = _evidence_of(population, policy, decide_question.assume, needed)
    return replace(
        Decision.begun(policy, decide_question.setting, decide_question.missing, digest=users.seal),
        coverage=population.coverage(policy.candidates, decide_question.k),
        no_evidence=no_evidence,
        assumed=assumed,
        view=users.view,
        masked=users.masked(policy.candidates, decide_question.k),
        source=population.window.source,
        unit=population.unit,
        days=population.snapshot.days(disclosed_from(decide_question.k)),
        came_back=came_back,
        names=population.names(policy.candidates),
        account=population.members(decide_question.k),
        observed=None if drawn is None else drawn.observed,
        binding_stratum=None if drawn is None else drawn.binding,
        unobserved_share=None if drawn is None else drawn.unobserved,
    )


def _with_level(
    begun: Decision,
    population: Population,
    registered: Collection[AskedQuestion],
    decide_question: DecideQuestion,
) -> Decision:
    """Return a decision about sets with its share of delta, and which sets are searched."""
    # Then the candidates alone are what might have been asked for, not all names there may be.
    is_fixed = (
        decide_question.fixed_question or decide_question.search_users is not None or begun.is_exact
    )
    universe = None if is_fixed else universe_of(len(population.apis))
    level = level_of(
        asked_question(population, begun),
        registered_in_log(population, registered),
        universe=universe,
    )
    return replace(
        begun,
        # A registered question pays for its own candidates alone (certificate/views.md).
        universe=None if level.registered else universe,
        # Other conditions have the levels of all names, and all share delta.
        first_names=None
        if is_fixed or level.registered or begun.policy.has_conditions
        else population.first_of(begun.policy.candidates),
        level=level.level,
        registered=level.registered,
        view_weight=level.view_weight,
        must=tuple(sorted({*population.named(decide_question.must)})),
        never=tuple(sorted({*population.named(decide_question.never)})),
        weights=_weights_of(population, decide_question.weights or {}),
    )


def _of_levels(
    begun: Decision, components: Sequence[Component], decide_question: DecideQuestion
) -> Decision:
    """Return a decision about levels, which were fixed before the users were seen."""
    lattice = Lattice(tuple(components))
    never = {word for each in decide_question.never for word in finest(lattice.named([each]))}
    must = finest(lattice.named(decide_question.must))
    return replace(begun, components=lattice.components, must=must, never=tuple(sorted(never)))


def _evidence_of(
    population: Population,
    policy: Policy,
    assume: Iterable[str],
    needed: Mapping[str, Iterable[str]],
) -> tuple[dict[str, Lack], dict[str, Lack]]:
    """Find the candidates without evidence, and those of them that are taken in all the same.

    Args:
        population, policy, assume: The users, what is asked of them, and what is taken in.
        needed: Option -> candidates that it cannot be without.

    Raises:
        InputError: One that is needed has none.
        UnknownNameError: What is assumed is no candidate.
    """
    lacks = population.lacks(policy.candidates, policy.k)
    taken = population.named(assume)
    policy.check_candidates(taken)
    for option, apis in needed.items():
        for api in population.named(apis):
            if api in lacks and api not in taken:
                raise InputError(
                    f"{option}: no evidence about {api}: {lack_in_words(lacks[api], policy.k)}",
                    hint=f"--assume {api} takes it in",
                )
    assumed = {api: lacks.pop(api) for api in taken if api in lacks}
    return lacks, assumed


def _components_of(population: Population, decide_question: DecideQuestion) -> list[Component]:
    """Return the components of a question with their APIs called as in the log."""
    if not decide_question.components:
        return []
    check_components(decide_question.components)
    _check_design(population, decide_question)
    called = [_called_in_log(component, population) for component in decide_question.components]
    # Again: two names of one column would be one API in two components.
    check_components(called)
    return called


@INTERRUPTS.held()
def _decide_designed(
    users: Population, begun: Decision, decide_question: DecideQuestion
) -> Decision:
    """Decide about levels; where some are to be designed, from a share, on the other users.

    The designs of a single level are tested from coarse to fine, each at the whole δ, until the
    first that fails: only the first one above the budget can begin an error (certificate.md, 17).
    """

    def decided(tested: Population, asked_now: Decision) -> Decision:
        return decide(level_source(tested, asked_now.components), asked_now, decide_question)

    share, components, policy = decide_question.design_share, begun.components, begun.policy
    if share is None:
        return decided(users, begun)
    # Levels follow the values of the first, so only the rest can be tested as draws.
    first, rest = users.divided(share)
    if len(components) == len(components[0].levels) == 1:
        if (known := decide_question.known) is not None:
            # a file knows of one design, and all are tested again
            tried = 1 if known.design is None else known.design.tried
            part = DesignPart(share, first.users, tried, "values")
            check_same(known, replace(begun, design=part, components=known.components))
            decide_question = replace(decide_question, known=None)
        designs = [[each] for each in alternatives(components[0], first, policy)]
    else:
        designs = [design(components, first, policy)]

    def tried_as(tried: int) -> Decision:
        part = DesignPart(share, first.users, tried, "values")
        designed = replace(begun, components=tuple(designs[tried - 1]), design=part)
        return decided(rest, designed)

    now = tried_as(1)
    for tried in range(2, len(designs) + 1):
        # Each has the whole δ only as long as all before it passed: the first that fails ends it.
        if INTERRUPTS.noted or not now.recommended:
            break
        finer = tried_as(tried)
        if not finer.recommended:
            return replace(now, design=finer.design)
        now = finer
    return now


def _check_design(population: Population, decide_question: DecideQuestion) -> None:
    """Refuse designs of which nothing is proved, and a share without them."""
    share, sample = decide_question.design_share, decide_question.sample
    designed = [component.name for component in decide_question.components if component.designed]
    if share is None:
        if designed:
            raise InputError(
                f"levels: {designed[0]} has a level to design: from whom?",
                hint="--design-share 30%: of some users, so that the others can be tested",
            )
        return
    if not designed:
        raise InputError("design-share: no level is to design", hint="levels: design = {...}")
    check_share("design_share", share)
    if decide_question.setting == "sample" or sample.strata or sample.cluster or sample.fake_share:
        raise InputError(
            "design-share: is for users who were drawn one by one from a population",
            hint="omit --setting sample, --strata, --cluster and --fake-share",
        )
    if population.audience is not Audience.OWNER:
        raise InputError(
            "design-share: levels follow the values of users", hint="design as the owner"
        )


def _called_in_log(component: Component, population: Population) -> Component:
    """Return a component with its APIs called as in the log."""
    named = tuple(name for api in component.apis for name in population.named([api]))
    # Levels are of one value: which of two columns it is cannot be guessed.
    if len(named) > len(component.apis):
        raise InputError(
            f"levels: component {component.name}: several columns of the log are one of its APIs",
            hint=f"name the one: {', '.join(named)}",
        )
    return replace(component, apis=named)


def _weights_of(population: Population, weights: Mapping[str, float]) -> dict[str, float]:
    """Weights by what the log calls the APIs; known ones that it lacks are passed over."""
    found: dict[str, float] = {}
    for api, weight in weights.items():
        try:
            found |= dict.fromkeys(population.named([api]), weight)
        # A known API that the log lacks is passed over; a name that nobody knows is a typo.
        except UnknownNameError:
            if not meanings(api):
                raise
    return found


def asked_question(population: Population, decision: Decision) -> AskedQuestion:
    """Return all that a decision asks of a population, with APIs called as in its log.

    It is the same question at every look.
    """
    policy = decision.policy
    question = AskedQuestion(
        policy=replace(policy, sample=replace(policy.sample, look=None)),
        setting=decision.setting,
        missing=decision.missing,
        view=population.view,
        window=population.window,
    )
    return _as_in_log(question, population, population.means)


def registered_in_log(
    population: Population, registered: Collection[AskedQuestion]
) -> list[AskedQuestion]:
    """Return registered questions with their APIs called as in the log.

    What the user said that columns are does not count: it may have been said after a look at them.
    """
    means = {name: meaning(name, {}) for name in population.apis} if registered else {}
    return [_as_in_log(question, population, means) for question in registered]


def _as_in_log(
    question: AskedQuestion, population: Population, means: Mapping[str, str]
) -> AskedQuestion:
    """Return a question with its APIs called as in the log of a population, where it has them."""

    def columns(api: str) -> Sequence[str]:
        if api in population.apis or len(meanings(api)) != 1:
            return (api,)
        return columns_of(api, means) or (api,)

    policy, view = question.policy, question.view
    # A registered API that the log lacks keeps its name, and matches no question.
    candidates = tuple(name for api in policy.candidates for name in columns(api))
    transforms = {name: how for api, how in view.transforms.items() for name in columns(api)}
    return replace(
        question,
        policy=replace(policy, candidates=candidates),
        view=replace(view, transforms=transforms),
    )


def question_of(decision: Decision) -> Question:
    """Return the question of a decision; where it is exact, limits are wrong with 5 %."""
    policy = decision.policy
    return Question(
        policy.k,
        policy.population,
        # The usual level: only what is said beside the verdicts of an exact decision has limits.
        policy.delta or 0.05,
        decision.missing,
        policy.sample,
        counted=decision.setting == "sample",
        given=() if policy.cohorts is None else policy.cohorts.given,
        visits=policy.visits,
        after=() if policy.links is None else policy.links.after,
    )


def users_meant(population: Population, decision: Decision) -> Population:
    """Return the users whom the question of a decision means, called as in their log."""
    return population.for_question(question_of(decision), decision.policy.candidates)


def with_all_candidates(population: Population, decision: Decision) -> Population:
    """Return users of whom nobody has a value of those candidates that their log lacks.

    Nor of what the view changes. A browser that takes an API away leaves no trace of it. Where the
    log holds no candidate at all, the users are as they were: it is the log of something else.
    """

    def lacked(apis: Iterable[str]) -> list[str]:
        return [
            api
            for api in apis
            if api not in population.apis
            and not columns_of(meaning(api, decision.names) or api, population.means)
        ]

    candidates = decision.policy.candidates
    if len(lacked(candidates)) == len(candidates):
        return population
    return population.with_unobserved(
        lacked(dict.fromkeys([*decision.asked, *decision.view.transforms]))
    )


def called_as(decision: Decision, population: Population) -> Decision:
    """Return a decision with its candidates, and what else it names, called as in a log of users.

    What is no candidate keeps its name where the log has no other.

    Raises:
        UnknownNameError: The log lacks one.
        InputError: It holds one twice, or two as one, or means another API by the same name.
    """
    candidates, cohorts = decision.policy.candidates, _cohorts_called(decision, population)
    for api in candidates:
        here, there = meaning(api, decision.names), population.means.get(api)
        # Else its verdict would go over to another API that happens to have its name.
        if here and there and here != there:
            raise InputError(
                f"{api} is {here} in the decision, and {there} in the log",
                hint="decide anew on this log, or say what it is with `fpmonitor db apis --set`",
            )
    decision = replace(decision, policy=replace(decision.policy, cohorts=cohorts))
    # All stand in the log as they are: nothing is translated, whatever else it holds.
    if set(candidates) <= set(population.apis):
        return decision
    called = {
        api: population.named([api if api in population.apis else decision.means(api)])
        for api in candidates
    }
    names = {name for found in called.values() for name in found}
    for api, found in called.items():
        if len(found) > 1 or len(names) < len(called):
            raise InputError(
                f"the decision and the log differ in what they call {decision.means(api)}",
                hint="decide anew on this log",
            )

    def sets(lists: Iterable[ApiSet]) -> tuple[ApiSet, ...]:
        return tuple(tuple(sorted(called[api][0] for api in apis)) for apis in lists)

    def wished(apis: Iterable[str]) -> list[str]:
        return [called[api][0] if api in called else api for api in apis]

    [recommended] = sets([decision.recommended])
    return replace(
        decision,
        must=tuple(sorted(wished(decision.must))),
        never=tuple(sorted(wished(decision.never))),
        weights=dict(zip(wished(decision.weights), decision.weights.values(), strict=True)),
        policy=replace(decision.policy, candidates=tuple(names)),
        allow=sets(decision.allow),
        block=sets(decision.block),
        undecided=sets(decision.undecided),
        recommended=recommended,
        masked=None if decision.masked is None else sets([decision.masked])[0],
        coverage=decision.coverage
        and {called[api][0]: share for api, share in decision.coverage.items()},
        names=population.names(names),
        no_evidence={called[api][0]: lack for api, lack in decision.no_evidence.items()},
        assumed={called[api][0]: lack for api, lack in decision.assumed.items()},
    )


def _cohorts_called(decision: Decision, population: Population) -> CohortBudget | None:
    """Return what tells cohorts as a log calls it, as far as it does."""
    cohorts = decision.policy.cohorts
    if cohorts is None:
        return None

    def called(api: str) -> str:
        found = [] if api in population.apis else columns_of(decision.means(api), population.means)
        return found[0] if len(found) == 1 else api

    return replace(
        cohorts, given=tuple(map(called, cohorts.given)), menu=tuple(map(called, cohorts.menu))
    )


def answer_gate(
    population: Population, decision: Decision, apis: Collection[str]
) -> dict[str, Any]:
    """Answer as `Decision.answer` does, once the users bear out the list that settles it.

    What no list settles, the users do.

    Args:
        population: The users that were decided on, seen as the decision saw them.
        apis: What a site reads.
    """
    # Whoever has the file may change its lists: a verdict counts where the users bear it out.
    judge = _judge_of(users_decided_on(population, decision), decision)
    settled, because = decision.verdict(apis)
    if because and settled in ("allow", "block") and decision.confirmation is None:
        _check_listed(settled, judge(because), ", ".join(decision.lattice.spelled(because)))
    return decision.answer(apis, judge)


def check_lists(population: Population, decision: Decision) -> None:
    """Check each list of a decision by the users that it was made of.

    Which sets of others were tested followed from those searched: `searched_again` tells that.

    Raises:
        InputError: They are other users, or they do not bear a list out.
    """
    eligible_users, tested = users_decided_on(population, decision), decision.confirmation
    if tested is None:
        users = source_of(eligible_users, decision).users
        _check_sets(decision, users, _judge_of(eligible_users, decision))
        return
    source, rest = divided_again(eligible_users, decision, tested)
    found = on_others(decision, source.users, rest, tested.chains)
    if (found.confirmed, found.refuted) != (tested.confirmed, tested.refuted):
        raise not_credible("`confirmation`, not as in the data")
    tests = tests_of(decision, source.users)
    users = source.users + rest.users
    _check_sets(decision, users, lambda apis: tests.verdict(apis, source.spectrum(apis)))
    if decision.complete:
        # Sets of no chain are settled by nobody, so the lists alone do not show what they lack.
        borders = borders_with_others(decision, source, tests)
        for name in ("allow", "block", "undecided"):
            if {*without_empty(getattr(borders, name))} != {*getattr(decision, name)}:
                raise not_credible(f"`{name}`, not as in the data")


def divided_again(
    eligible_users: Population, decision: Decision, tested: Confirmation
) -> tuple[SpectrumSource, ChosenValues]:
    """Return the users who were searched for a decision, and all others."""
    candidates = decision.policy.candidates
    return eligible_users.searched_and_rest(tested.searched, candidates, decision.engine)


def _check_sets(decision: Decision, users: int, judge: Callable[[ApiSet], Verdict]) -> None:
    """Check the number of users, and each listed set that others did not settle."""
    tested = decision.confirmation
    if users != decision.users:
        raise not_credible("`users`, not as in the data")
    for apis in decision.allow:
        if tested is None or not any({*apis} <= {*found} for found in tested.confirmed):
            _check_listed("allow", judge(apis), ", ".join(decision.lattice.spelled(apis)))
    for apis in decision.block:
        if tested is None or not any({*apis} >= {*found} for found in tested.refuted):
            _check_listed("block", judge(apis), ", ".join(decision.lattice.spelled(apis)))
    for each in decision.union_with:
        union = decision.union(each.apis)
        if each.verdict != "unknown" and each.verdict != judge(union):
            raise not_credible(f"`union_with`, which the users do not bear out: {', '.join(union)}")


def _judge_of(eligible_users: Population, decision: Decision) -> Callable[[ApiSet], Verdict]:
    """Return what judges one set after another, by tests that are made once."""
    # By visits, sets have users of their own, and tests are made for a number of users.
    judges, lattice = dict[tuple[int, ...], Tests](), decision.lattice

    def judge(members: ApiSet) -> Verdict:
        shown = tuple(sorted(lattice.closed({*members, *lattice.lowest})))
        if not {*shown}.isdisjoint(lattice.beyond):
            return "undecided"
        source = source_of(eligible_users, decision, shown)
        users = (source.users, *units_beside(source).values())
        if users not in judges:
            judges[users] = judging(decision, source)
        return judges[users].verdict(shown, source.spectrum(shown))

    return judge


def source_of(
    eligible_users: Population, decision: Decision, sets: Sequence[str] | None = None
) -> SpectrumSource:
    """Return the users by whom sets were judged, over those of a decision or over some.

    Raises:
        InputError: A version of before drew those from whom levels were designed by the order of
            their rows.
    """
    if not decision.components:
        if sets is None or decision.policy.by_visits:
            # Who counts by visits has one with a value of some candidate.
            sets = decision.asked
        return eligible_users.source(sets)
    part = decision.design
    if part is None:
        return level_source(eligible_users, decision.components)
    if part.by != "values":
        raise InputError(
            "its levels were designed from users who were drawn by the order of their rows",
            hint="decide anew: this version draws by values, and tests on other users",
        )
    return level_source(eligible_users.divided(part.share)[1], decision.components)


def _check_listed(listed: Verdict, found: Verdict, name: str) -> None:
    """Refuse a list that the users do not bear out."""
    if listed != found:
        raise not_credible(f"`{listed}` holds {name}, which the users do not bear out")


def users_decided_on(population: Population, decision: Decision) -> Population:
    """Return the users whom the question of a decision means, if the decision was made of them.

    Raises:
        InputError: It was not.
    """
    others = "the database does not hold the users that were decided on"
    try:
        eligible_users = users_meant(population, decision)
    except UnknownNameError as error:
        raise InputError(
            f"{others}: no log holds {error.name}",
            hint="name the database that was decided on, or decide anew",
        ) from error
    # A digest keyed by the database: of other users, or other values, no verdict is known.
    if eligible_users.seal != decision.digest:
        raise InputError(
            others,
            hint="name its --since and --until, or decide anew; `fpmonitor check` tests the sets "
            "of an old decision on new users",
        )
    return eligible_users


def are_users_decided_on(population: Population, decision: Decision) -> bool:
    """Whether a decision was made of some users."""
    try:
        users_decided_on(population, decision)
    except InputError:
        return False
    return True


def recheck_sets(
    population: Population, decision: Decision, others: Sequence[ApiSet] = ()
) -> dict[ApiSet, Verdict]:
    """Test every set on the allow list of a decision again, on the current users.

    Others are told what follows from what they are told of the spectra.

    Args:
        population: The current users, seen as the decision saw its own.
        decision: The decision, with its APIs called as in their log: see `called_as`.
        others: Sets that are not on its list, which are tested as it was decided.
    """
    eligible_users, k = users_meant(population, decision), decision.policy.k
    if eligible_users.audience is Audience.OTHERS and eligible_users.users < disclosed_from(k):
        # Tests refuse too few users by their number, which must not leave.
        return dict.fromkeys((*decision.allow, *others), "undecided")
    source = eligible_users.told_source(decision.policy.candidates, k)
    # a stratum that has no user now counts as exposed now
    policy = replace(decision.policy, sample=eligible_users.model(decision.policy.sample))
    return recheck(replace(decision, policy=policy), source, others)
