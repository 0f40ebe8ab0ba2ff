"""Decisions on a population: which API sets are allowed, and whether they still are."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fpmonitor.decide.confirming import confirm
from fpmonitor.decide.deciding import MANY, Judge, decide, recheck
from fpmonitor.decide.decision import Decision
from fpmonitor.decide.designs import alternatives, design
from fpmonitor.decide.effort import INTERRUPTS
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.level_decision import DesignPart
from fpmonitor.decide.levels import decide_levels, judge_levels
from fpmonitor.decide.questions import AskedQuestion, level_of
from fpmonitor.decide.view_weight import SEARCH_SHARE
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.policy import Policy, check_share, universe_of
from fpmonitor.population.evidence import lack_in_words
from fpmonitor.population.level_source import LevelSource
from fpmonitor.population.levels import check_components
from fpmonitor.population.memory import MemorySource
from fpmonitor.population.told import ToldSource
from fpmonitor.question import Question
from fpmonitor.vocabulary import columns_of, meaning, meanings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from fpmonitor.decide.asked import DecideQuestion
    from fpmonitor.decide.decision import ApiSet, Setting, Verdict
    from fpmonitor.decide.level_decision import LevelDecision
    from fpmonitor.population.evidence import Lack
    from fpmonitor.population.kept_values import ChosenValues
    from fpmonitor.population.levels import Component, Vector
    from fpmonitor.population.population import Population
    from fpmonitor.question import Missing
    from fpmonitor.spectrum import SpectrumSource

_UNCONFIRMED = "interrupted before the sets were confirmed, so none is certified"


def decide_sets(
    population: Population,
    asked: DecideQuestion,
    *,
    registered: Collection[AskedQuestion] = (),
    counter: str = "duckdb",
) -> Decision:
    """Decide all subsets of the candidates.

    A decision goes to nobody but the owner as it is made; what leaves is the list.

    Parameters
    ----------
    population
        The users.
    asked
        What is asked of them.
    registered
        What was registered before the first user was stored.
    counter
        What is noted where queries counted.

    Raises
    ------
    InputError
        More candidates than `search_users` is for.
    KeyboardInterrupt
        An interrupt before the search, or before what was found among `search_users` was confirmed.
    """
    question = asked.question
    chosen = population.named(
        population.askable_apis(question) if asked.candidates is None else asked.candidates
    )
    if asked.search_users is not None and len(chosen) > MANY:
        raise InputError(f"search-users: is for up to {MANY} candidates, not {len(chosen)}")
    users = population.asked(question, chosen)
    policy = _policy_of(users, asked, chosen)
    is_fixed = asked.fixed_question or asked.search_users is not None or question.counted
    universe = None if is_fixed else universe_of(len(population.apis))
    level = level_of(
        asked_question(population, policy, setting=asked.setting, missing=asked.missing),
        registered_in_log(population, registered),
        universe=universe,
    )
    if not question.counted:  # after what may be registered
        policy = replace(policy, sample=users.model(asked.sample))
    source: SpectrumSource
    rest: ChosenValues | None = None
    if asked.search_users is None:
        source = users.source(policy.candidates, asked.engine)
    else:
        source, rest = users.searched_and_rest(asked.search_users, policy.candidates)
        level = replace(level, level=(level.level or 0.0) * SEARCH_SHARE)
        policy = replace(policy, sample=replace(policy.sample, look=None))  # it is one look
    in_memory = isinstance(source, MemorySource) if rest is None else rest.in_memory
    no_evidence, assumed = _lacks_of(population, policy, asked.assume, needed={"must": asked.must})
    drawn = None if rest is not None else users.drawn
    decision = decide(
        source,
        replace(
            Decision.begun(
                policy,
                asked.setting,
                asked.missing,
                digest=users.seal,
                universe=None if level.registered else universe,
            ),
            first_names=None if is_fixed or level.registered else users.first_of(policy.candidates),
            level=level.level,
            registered=level.registered,
            view_weight=level.view_weight,
            coverage=population.coverage(policy.candidates, asked.k),
            no_evidence=no_evidence,
            assumed=assumed,
            view=users.view,
            masked=users.masked(policy.candidates, asked.k),
            source=population.window.source,
            unit=population.unit,
            must=tuple(sorted({*population.named(asked.must)})),
            never=tuple(sorted({*population.named(asked.never)})),
            weights=_weights_of(population, asked.weights or {}),
            engine="memory" if in_memory else counter,
            names=population.names(policy.candidates),
            days=population.snapshot.days(asked.k),
            account=population.members(asked.k),
            observed=None if drawn is None else drawn.observed,
            binding_stratum=None if drawn is None else drawn.binding,
            unobserved_share=None if drawn is None else drawn.unobserved,
        ),
        asked,
    )
    decision = replace(decision, made=datetime.now(UTC).date())
    if rest is None:
        return decision
    if not decision.complete:
        raise KeyboardInterrupt(_UNCONFIRMED)
    try:
        return confirm(decision, source, rest, chains=asked.confirm_chains, progress=asked.progress)
    except KeyboardInterrupt as end:
        raise KeyboardInterrupt(_UNCONFIRMED) from end


def _lacks_of(
    population: Population,
    policy: Policy,
    assume: Iterable[str],
    needed: Mapping[str, Iterable[str]],
) -> tuple[dict[str, Lack], dict[str, Lack]]:
    """Find the candidates without evidence, and those of them that are taken in all the same.

    Parameters
    ----------
    population, policy, assume
        The users, what is asked of them, and what is taken in.
    needed
        Option -> candidates that it cannot be without.

    Raises
    ------
    InputError
        One that is needed has none.
    UnknownNameError
        What is assumed is no candidate.
    """
    k, users = policy.k, population.users
    if k > users:  # as k of a large population: the same share of those who were observed
        k = max(math.ceil(k * users / policy.population), 1)
    lacks = population.lacks(policy.candidates, k)
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


def decide_by_levels(population: Population, asked: DecideQuestion) -> LevelDecision:
    """Decide all level vectors of some components, which were fixed before the users were seen.

    Raises
    ------
    InputError
        Components that cannot stand beside each other, values that are kept as digests, a component
        of an API without evidence that is not assumed, or a design without a share, where users do
        not count one by one, or for others.
    """
    components, question = asked.components, asked.question
    check_components(components)
    _check_design(population, asked)
    called = [_called_in_log(component, population) for component in components]
    chosen = [api for component in called for api in component.apis]
    check_components(called)
    users = population.asked(question, chosen)
    policy = _policy_of(users, asked, chosen)
    _, assumed = _lacks_of(population, policy, asked.assume, needed={"levels": chosen})
    policy = replace(policy, sample=users.model(asked.sample))
    told: dict[str, Any] = {
        "time_limit": asked.time_limit,
        "progress": asked.progress,
        "known": asked.known,
        "seal": users.seal,
        "setting": asked.setting,
        "missing": asked.missing,
        "coverage": population.coverage(chosen, asked.k),
        "view": users.view,
        "masked": users.masked(chosen, asked.k),
        "source": population.window.source,
        "unit": population.unit,
        "account": population.members(policy.k),
        "names": population.names(chosen),
        "drawn": users.drawn,
    }
    if asked.design_share is None:
        decided = decide_levels(LevelSource(users, called), called, policy, **told)
    else:
        decided = _decide_designed(users, called, policy, asked.design_share, told)
    decided = replace(decided, assumed=assumed)
    return replace(decided, guarantee=guarantee(decided)) if assumed else decided


def _policy_of(users: Population, asked: DecideQuestion, candidates: Iterable[str]) -> Policy:
    """Return the policy of a decision on the users that a question means, the sample as asked."""
    question = asked.question
    return Policy(
        k=question.k,
        population=users.users if question.counted else users.question(question).users,
        budget=asked.budget,
        delta=None if question.counted else question.delta,
        candidates=tuple(candidates),
        realised=asked.realised,
        sample=asked.sample,
    )


@INTERRUPTS.held()
def _decide_designed(
    asked: Population,
    components: Sequence[Component],
    policy: Policy,
    share: float,
    told: Mapping[str, Any],
) -> LevelDecision:
    """Design levels from a share of the users, and decide about them on the others.

    The designs of a single level are tested from coarse to fine, each at the whole δ, until the
    first that fails: only the first one above the budget can begin an error (certificate.md, 17).
    """
    first, rest = asked.divided(share)
    known: LevelDecision | None = told.get("known")
    if len(components) == len(components[0].levels) == 1:
        # a file knows of one design, and all are tested again
        told = {name: value for name, value in told.items() if name != "known"}
        if known is not None:
            tried = 1 if known.design is None else known.design.tried
            known.check_same(
                policy=policy,
                setting=told["setting"],
                missing=told["missing"],
                digest=told["seal"],
                design=DesignPart(share, first.users, tried, "values"),
            )
        designs = [[each] for each in alternatives(components[0], first, policy)]
    else:
        designs = [design(components, first, policy)]

    def decided(tried: int) -> LevelDecision:
        part = DesignPart(share, first.users, tried, "values")
        designed = designs[tried - 1]
        return decide_levels(LevelSource(rest, designed), designed, policy, design=part, **told)

    now = decided(1)
    for tried in range(2, len(designs) + 1):
        if INTERRUPTS.noted or not any(now.recommended or ()):
            break
        finer = decided(tried)
        if not any(finer.recommended or ()):
            return replace(now, design=finer.design)
        now = finer
    return now


def _check_design(population: Population, asked: DecideQuestion) -> None:
    """Refuse designs of which nothing is proved, and a share without them."""
    share, sample = asked.design_share, asked.sample
    designed = [component.name for component in asked.components if component.designed]
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
    if asked.setting == "sample" or sample.strata or sample.cluster or sample.fake_share:
        raise InputError(
            "design-share: is for users who were drawn one by one from a population",
            hint="leave --setting sample, --strata, --cluster and --fake-share away",
        )
    if population.audience is not Audience.OWNER:
        raise InputError(
            "design-share: levels follow the values of users", hint="design as the owner"
        )


def _called_in_log(component: Component, population: Population) -> Component:
    """Return a component with its APIs called as in the log."""
    named = tuple(name for api in component.apis for name in population.named([api]))
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
        except UnknownNameError:
            if not meanings(api):
                raise
    return found


def asked_question(
    population: Population, policy: Policy, *, setting: Setting, missing: Missing
) -> AskedQuestion:
    """Return all that is asked of a population, with APIs called as in its log.

    It is the same question at every look.
    """
    asked = AskedQuestion(
        policy=replace(policy, sample=replace(policy.sample, look=None)),
        setting=setting,
        missing=missing,
        view=population.view,
        window=population.window,
    )
    return _as_in_log(asked, population, population.means)


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
    candidates = tuple(name for api in policy.candidates for name in columns(api))
    transforms = {name: how for api, how in view.transforms.items() for name in columns(api)}
    return replace(
        question,
        policy=replace(policy, candidates=candidates),
        view=replace(view, transforms=transforms),
    )


def question_of(decision: Decision | LevelDecision) -> Question:
    """Return the question of a decision; where it is exact, limits are wrong with 5 %."""
    policy = decision.policy
    return Question(
        policy.k,
        policy.population,
        policy.delta or 0.05,
        decision.missing,
        policy.sample,
        counted=decision.setting == "sample",
    )


def with_all_candidates(population: Population, decision: Decision | LevelDecision) -> Population:
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
        lacked(dict.fromkeys([*candidates, *decision.view.transforms]))
    )


def called_as(decision: Decision, population: Population) -> Decision:
    """Return a decision with its candidates called as in the log of some users.

    Raises
    ------
    UnknownNameError
        The log lacks one.
    InputError
        It holds one twice, or two as one, or means another API by the same name.
    """
    candidates = decision.policy.candidates
    for api in candidates:
        here, there = meaning(api, decision.names), population.means.get(api)
        if here and there and here != there:
            raise InputError(
                f"{api} is {here} in the decision, and {there} in the log",
                hint="decide anew on this log, or say what it is with `fpmonitor db apis --set`",
            )
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

    [recommended] = sets([decision.recommended])
    return replace(
        decision,
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


def answer_gate(
    population: Population, decision: Decision, apis: Collection[str]
) -> dict[str, Any]:
    """Answer as `Decision.answer` does, once the users bear out the list that settles it.

    What no list settles, the users do.

    Parameters
    ----------
    population
        The users that were decided on, seen as the decision saw them.
    decision, apis
        The decision, and what a site reads.

    Raises
    ------
    InputError
        The users are not those of the decision.
    UnknownNameError, UndecidableError
        An API that is no candidate; no user left.
    """
    asked = users_decided_on(population, decision)

    def judge(members: ApiSet) -> Verdict:
        spectrum = asked.source(members).spectrum(members)
        return Judge.of(decision, asked.users).verdict(len(members), spectrum)

    settled, because = decision.verdict(apis)
    if because and settled in ("allow", "block") and decision.confirmation is None:
        _check_listed(settled, judge(because), ", ".join(because))
    return decision.answer(apis, judge)


def _check_listed(listed: Verdict, found: Verdict, name: str) -> None:
    """Refuse a list that the users do not bear out."""
    if listed != found:
        raise InputError(
            f"the decision file is not to be trusted: `{listed}` holds {name}, which the users "
            "do not bear out",
            hint="decide again; `fpmonitor audit certificate` lists all that is wrong",
        )


def answer_gate_of_levels(
    population: Population, decision: LevelDecision, vector: Vector
) -> dict[str, Any]:
    """Answer as `LevelDecision.answer` does; what the lists do not settle, the users do.

    Parameters and errors as of `answer_gate`.
    """
    asked = users_decided_on(population, decision)

    def judge(unknown: Vector) -> Verdict:
        tested = users_tested(asked, decision)
        return judge_levels(decision, LevelSource(tested, decision.components), unknown)

    settled = decision.verdict(vector)
    if settled in ("allow", "block") and any(vector):
        shown = decision.shown(vector)
        _check_listed(settled, judge(vector), ", ".join(f"{n}={shown[n]}" for n in shown))
    return decision.answer(vector, judge)


def users_tested(asked: Population, decision: LevelDecision) -> Population:
    """Return the users by whom level vectors were judged: those from whom none was designed.

    Raises
    ------
    InputError
        A version of before drew them, by the order of their rows.
    """
    part = decision.design
    if part is None:
        return asked
    if part.by != "values":
        raise InputError(
            "its levels were designed from users who were drawn by the order of their rows",
            hint="decide anew: this version draws by values, and tests on other users",
        )
    return asked.divided(part.share)[1]


def users_decided_on(population: Population, decision: Decision | LevelDecision) -> Population:
    """Return the users whom the question of a decision means, if the decision was made of them.

    Raises
    ------
    InputError
        It was not.
    """
    others = "the database does not hold the users that were decided on"
    try:
        asked = population.asked(question_of(decision), decision.policy.candidates)
    except UnknownNameError as error:
        raise InputError(
            f"{others}: no log holds {error.name}",
            hint="name the database that was decided on, or decide anew",
        ) from error
    if asked.seal != decision.digest:
        raise InputError(
            others,
            hint="name its --since and --until, or decide anew; `fpmonitor check` tests the sets "
            "of an old decision on new users",
        )
    return asked


def recheck_sets(population: Population, decision: Decision) -> dict[ApiSet, Verdict]:
    """Test every set on the allow list of a decision again, on the current users.

    Others are told what follows from what they are told of the spectra.

    Parameters
    ----------
    population
        The current users, seen as the decision saw its own.
    decision
        The decision, with its APIs called as in their log: see `called_as`.

    Raises
    ------
    PolicyError, UnknownNameError, UndecidableError
        The current data lack a candidate, or hold too few users.
    """
    candidates = decision.policy.candidates
    asked = population.asked(question_of(decision), candidates)
    source = asked.source(candidates)
    # a stratum that has no user now counts as exposed now
    policy = replace(decision.policy, sample=asked.model(decision.policy.sample))
    decision = replace(decision, policy=policy)
    if population.audience is Audience.OTHERS:
        most, least = (ToldSource(source, decision.policy.k, which) for which in ("most", "least"))
        return recheck(decision, most, least=least)
    return recheck(decision, source)
