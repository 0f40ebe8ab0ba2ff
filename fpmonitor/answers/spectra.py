"""What a decision rests on: count spectra of its listed sets, and what it says of its users."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

from fpmonitor.account import Kind  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.answers.decide import (
    are_users_decided_on,
    asked_question,
    by_visits_of,
    check_lists,
    divided_again,
    registered_in_log,
    source_of,
    users_decided_on,
    users_meant,
)
from fpmonitor.decide.confirming import searched_again, tests_of_others
from fpmonitor.decide.credible import Discrepancy, has_tests_of_now, is_of_now, not_credible
from fpmonitor.decide.deciding import forecast_of, possible_of, tests_of
from fpmonitor.decide.decision import ByVisits  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.decide.files import are_same_numbers
from fpmonitor.decide.questions import days_asked, level_of, questions_before
from fpmonitor.decide.view_weight import SEARCH_SHARE
from fpmonitor.disclosure import Audience, may_count_below, publishable_draws, publishable_groups
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.policy import DRAWS, Drawn, Look, disclosed_from
from fpmonitor.population.beside import USERS, SourceBeside, days_in_words, unit_spectrum
from fpmonitor.population.evidence import Lack  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.population.level_source import LevelSource
from fpmonitor.population.visits import VisitSource
from fpmonitor.results import Members
from fpmonitor.safe_files import read_json, typed
from fpmonitor.spectrum import CohortSpectrum
from fpmonitor.unit import Unit  # noqa: TC001 -- msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from fpmonitor.decide.decision import Confirmation, Decision
    from fpmonitor.decide.questions import ListedQuestion
    from fpmonitor.population.population import Population
    from fpmonitor.spectrum import CountSpectrum, SpectrumSource

# Shares and levels that were computed in another order differ in their last digits.
_ROUNDING = 1e-9
_OTHERWISE = "not as in the data"
_FORGOTTEN = "it cannot be proved any more: visits were forgotten since"
_OF_VISITS = frozenset({"days", "first look", "account"})  # claims that last values do not settle
# What designs are made for; what is found for it may differ between versions of SciPy.
_ASKED = (
    *("sign", "k", "population", "budget", "users", "delta", "bases", "universe", "first_names"),
    *("factors", "bias", "fakes", "value_share", "capped", "mean", "least_share"),
    "worst_share",
)
_AS_FOUND, _LEAST = 1e-6, 1e-12
_LACKING = "it is not told"
_NOT_ASKED = "of another question"
_OTHER_TESTS = "not what this version makes of the question, and may have followed from the users"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGroups:
    """The groups of one set: so many users (last) are in groups of a range.

    Attributes:
        cohorts: The groups of each cohort.
        beside: Those of the other units that conditions are about: see `population.beside`.
    """

    apis: tuple[str, ...]
    groups: tuple[tuple[int, int, int], ...]
    cohorts: tuple[tuple[tuple[int, int, int], ...], ...] = ()
    beside: Mapping[str, tuple[tuple[int, int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedAgain:
    """What a search among some users, and tests on the others, give when they are made again."""

    chains: tuple[tuple[tuple[str, ...], ...], ...]
    allow: tuple[tuple[str, ...], ...]
    block: tuple[tuple[str, ...], ...]
    undecided: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What else a decision says of the users that it was made of.

    Attributes:
        names, coverage, masked: As in `Decision`.
        lacks: Candidates without evidence, and why; null in files of before.
        level, registered, view_weight: As of `decide.questions.Level`: what its question has in
            this database.
        asked_before: As in `Decision`; null where the database does not list the question.
        asked_on: First and last day (UTC) on which the question was answered; null as before.
        unit, days, account: As in `Decision`, by the owner's view of all that is stored now.
        look, first_names: As of `SampleModel` and `Decision`; null where nothing noted them, and in
            files of before. Names are null for others, too.
        wishes: As in `Decision`, of what the file says was wished; empty in files of before.
        counters: What may have counted the groups, as `Decision.engine`; null in files of before.
        users_possible, users_needed, users_range, by_visits: As in `Decision`, where it has them.
        came_back: Whether users came back, at least 1 % and k; null in files of before.
        drawn: Of how many users those of strata or clusters were drawn; null without a draw, and in
            files of before.
        again: Where some users were searched: the chains that were tested on the others, and the
            lists, as a search among the same users gives them; null in files of before.
        declared: As in `Decision`; null where it has none, and in files of before.
        forgotten_on: The last day on which visits were forgotten.
    """

    names: Mapping[str, str]
    coverage: Mapping[str, float | None]
    masked: tuple[str, ...]
    lacks: Mapping[str, Lack] | None = None
    level: float | None = None
    registered: bool = False
    view_weight: float | None = None
    asked_before: int | None = None
    asked_on: tuple[date, date] | None = None
    unit: Unit | None = None
    days: tuple[date, date] | None = None
    account: Mapping[Kind, int] = field(default_factory=dict)
    look: Look | None = None
    first_names: int | None = None
    wishes: str = ""
    counters: tuple[str, ...] | None = None
    users_possible: tuple[int | None, ...] | None = None
    users_needed: tuple[int | None, ...] | None = None
    users_range: tuple[tuple[int | None, int | None], ...] | None = None
    by_visits: ByVisits | None = None
    came_back: bool | None = None
    drawn: Drawn | None = None
    again: SearchedAgain | None = None
    declared: Mapping[str, tuple[int, ...]] | None = None
    forgotten_on: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSpectra(Members):
    """The groups of all listed sets of a decision.

    Attributes:
        digest: That of the decision.
        spectra: Sets that are allowed, blocked or undecided; level vectors as `NAME=LEVEL`. Where
            some users were searched and others confirmed, of those who were searched.
        others: Sets that were tested on the others, by the values that counted.
        facts: Null in files of before.
    """

    digest: str
    spectra: tuple[SetGroups, ...]
    others: tuple[SetGroups, ...] = ()
    facts: Facts | None = None


def facts_of(
    population: Population,
    decision: Decision,
    listed: Collection[ListedQuestion],
) -> Facts:
    """Find again what a decision says of its users.

    Args:
        population: The users, seen as the decision saw its own.
        decision: The decision.
        listed: Questions that their database lists; none where no database holds them.
    """
    k, candidates = decision.policy.k, decision.policy.candidates
    eligible_users = users_meant(population, decision)
    facts = Facts(
        names=population.names(decision.asked),
        coverage=population.coverage(decision.asked, k),
        masked=eligible_users.masked(candidates, k),
        lacks=population.lacks(candidates, k),
        unit=population.unit,
        days=population.snapshot.days(disclosed_from(k)),
        forgotten_on=population.snapshot.forgotten_on,
        came_back=population.came_back(k) if decision.policy.visits == "last" else None,
        account=population.members(k),
        look=eligible_users.model(decision.policy.sample).look,
        # By the key of the data: whoever changed a wish in the file cannot note it anew.
        wishes=eligible_users.sealed(decision.wished),
        # Others are not told, and cannot refute what a decision says.
        first_names=eligible_users.first_of(decision.asked)
        if eligible_users.audience is Audience.OWNER
        else None,
        drawn=eligible_users.drawn if decision.confirmation is None else None,
    )
    if decision.components or decision.policy.delta is None:
        return facts
    question = asked_question(population, _as_asked(decision))
    registered = registered_in_log(population, [q.question for q in listed if q.answer is None])
    level = level_of(question, registered, universe=decision.universe)
    # Of the level those who were searched have a part: the rest is for the others.
    whole = 1 if decision.confirmation is None else SEARCH_SHARE
    is_fixed, users = decision.universe is None, decision.users
    return replace(
        facts,
        level=level.level and level.level * whole,
        registered=level.registered,
        view_weight=level.view_weight,
        asked_before=questions_before(question, listed, fixed=is_fixed, users=users),
        asked_on=days_asked(question, listed, fixed=is_fixed, users=users),
    )


def _as_asked(decision: Decision) -> Decision:
    """Return a decision without what a draw added to its policy."""
    policy = decision.policy
    if policy.sample.strata is None:
        return decision
    declared_strata = replace(policy.sample.strata, left_out=(), expected=None)
    sample = replace(policy.sample, strata=declared_strata)
    return replace(decision, policy=replace(policy, sample=sample))


def departures(decision: Decision, facts: Facts) -> Iterator[Discrepancy]:
    """Compare each claim on the users of a decision with what they are."""
    day = facts.forgotten_on
    has_lost = day is not None and (decision.made is None or day >= decision.made)
    for one in _departures(decision, facts):
        is_lost = has_lost and one.reason and one.claim in _OF_VISITS
        yield Discrepancy(one.claim, _FORGOTTEN, is_certain=False) if is_lost else one


def _departures(decision: Decision, facts: Facts) -> Iterator[Discrepancy]:
    yield from _of_log(decision, facts)
    said = {**decision.no_evidence, **decision.assumed}
    if facts.lacks is not None and (said or (facts.lacks and is_of_now(decision))):
        # Files of before asked for k users, where 10 tell enough.
        more = {"few users"} if decision.policy.k > disclosed_from(decision.policy.k) else set()
        alike = (
            all(found == facts.lacks.get(api) or found in more for api, found in said.items())
            and said.keys() >= facts.lacks.keys()
        )
        yield Discrepancy("evidence", _OTHERWISE * (not alike))
    yield from _wishes_and_account(decision, facts)
    yield from _told_beside(decision, facts)
    if decision.components:
        return
    if decision.confirmation is not None:
        yield from _searched(decision, decision.confirmation, facts.again)
    if decision.level is None:
        return
    listed_so = decision.registered == facts.registered
    yield Discrepancy("registered", "" if listed_so else "the database does not list it so")
    reason = ""
    for name in ("level", "view_weight"):
        claim, most = getattr(decision, name), getattr(facts, name)
        if (claim is None) != (most is None) or (claim or 0) > (most or 0) * (1 + _ROUNDING):
            reason = f"`{name}` is more than the question may have"
    yield Discrepancy("level", reason)
    if decision.policy.sample.look == "first":
        yield from _first_look(facts)
    noted = facts.first_names
    is_priced = decision.universe is not None and not decision.policy.has_conditions
    if decision.first_names or (is_priced and noted is not None):
        reason = "nothing here gives the names of the first log"
        if noted is not None:
            reason = _OTHERWISE * (decision.first_names not in {0, noted})
        yield Discrepancy("names of the first log", reason, is_certain=noted is not None)
    if facts.asked_before is not None and not decision.registered:
        fewer = decision.asked_before < facts.asked_before
        reason = f"it was {facts.asked_before:,} other questions" if fewer else ""
        yield Discrepancy("asked before", reason)


def _of_log(decision: Decision, facts: Facts) -> Iterator[Discrepancy]:
    """Compare what a decision says of APIs and of what a user is."""
    for name in ("names", "coverage", "masked", "unit"):
        claim, found = getattr(decision, name), getattr(facts, name)
        if found is None or (name == "coverage" and not found):
            continue  # spectra of before
        if claim is not None:
            alike = _is_coverage_of(decision, facts) if name == "coverage" else claim == found
            yield Discrepancy(name, "" if alike else _OTHERWISE)
        elif has_tests_of_now(decision):
            yield Discrepancy(name, _LACKING, is_certain=is_of_now(decision))


def _wishes_and_account(decision: Decision, facts: Facts) -> Iterator[Discrepancy]:
    """Compare what was wished, and what the members of the logs were taken for."""
    if decision.wishes != facts.wishes:
        # Files of before did not note it, nor do spectra of before.
        is_noted = bool(decision.wishes and (facts.wishes or not decision.wished))
        reason = "another wish was noted" if is_noted else "nobody noted it"
        # All files of now note it: those about levels have a day, all tell what they are about.
        of_now = decision.scope is not None or (decision.components and decision.made is not None)
        is_certain = is_noted or bool(of_now and facts.wishes)
        yield Discrepancy("weights, must, never, levels, scope, unions", reason, is_certain)
    if facts.account and not decision.account and has_tests_of_now(decision):
        yield Discrepancy("account", _LACKING, is_certain=False)  # others get none
    elif decision.account and facts.account:
        known = facts.account
        # Later logs can only add members: what the file counts beyond these was never there.
        more = any(number > known.get(of, 0) for of, number in decision.account.items())
        reason = _OTHERWISE if more else "by now it is more" * (decision.account != known)
        yield Discrepancy("account", reason, is_certain=more)


def _searched(
    decision: Decision, tested: Confirmation, again: SearchedAgain | None
) -> Iterator[Discrepancy]:
    """Compare what a search among some users gave with what it gives now."""
    if again is None:
        yield Discrepancy("chains", "nobody searched again", is_certain=False)
        return
    yield Discrepancy("chains", _OTHERWISE * (tested.chains != again.chains))
    for name in ("allow", "block", "undecided"):
        differs = {*getattr(decision, name)} != {*getattr(again, name)}
        # what was interrupted lists less
        yield Discrepancy(name, _OTHERWISE * differs, is_certain=decision.complete)


def _first_look(facts: Facts) -> Iterator[Discrepancy]:
    """Tell whether the database noted no look before that of a decision on the same users."""
    if facts.look is None:
        yield Discrepancy("first look", "nothing here noted the looks", is_certain=False)
    else:
        later = "the database was looked at before" * (facts.look == "later")
        yield Discrepancy("first look", later)


def _told_beside(decision: Decision, facts: Facts) -> Iterator[Discrepancy]:
    """Compare what screens say of the data and the search beside the verdicts."""
    if facts.drawn is not None:
        said = decision.drawn and replace(decision.drawn, users=facts.drawn.users)
        yield Discrepancy("observed", _OTHERWISE * (said != facts.drawn))
    if decision.declared is not None:
        differs = facts.declared is not None and decision.declared != facts.declared
        reason = _OTHERWISE if differs else "nothing here tells it" * (facts.declared is None)
        yield Discrepancy("declared", reason, is_certain=differs)
    yield from _visits_beside(decision, facts)
    known: dict[str, object] = {"made": facts.asked_on, "engine": facts.counters}
    known |= {name: getattr(facts, name) for name in ("days", "users_possible")}
    for name, found in known.items() if has_tests_of_now(decision) else ():
        if found is not None and getattr(decision, name) is None:
            # Who interrupts a decision is told no numbers of users.
            is_certain = decision.made is not None and name != "users_possible"
            yield Discrepancy(name, _LACKING, is_certain)
    if decision.days is not None:
        # Later visits with the values of before leave the digest as it was, and add days.
        (first, last), spanned = decision.days, facts.days
        if spanned is not None and spanned[0] <= first <= last <= spanned[1]:
            reason = "by now they are more" if decision.days != spanned else ""
            yield Discrepancy("days", reason, is_certain=False)
        else:
            yield Discrepancy("days", _OTHERWISE)
    if decision.made is not None and facts.asked_on is not None:
        first, last = facts.asked_on
        # An answer is listed when it is given, before or after midnight.
        between = (decision.made - first).days >= -1 and (decision.made - last).days <= 1
        yield Discrepancy("made", "" if between else "the question was asked on another day")
    if decision.engine is not None and facts.counters is not None:
        known_engine = decision.engine in facts.counters
        reason = "" if known_engine else f"counted is by {' or '.join(facts.counters)}"
        yield Discrepancy("engine", reason)
    for name in ("users_possible", "users_needed", "users_range"):
        if getattr(decision, name) is not None and getattr(facts, name) is not None:
            alike = getattr(decision, name) == getattr(facts, name)
            yield Discrepancy(name, "" if alike else "the users foretell another number")


def _visits_beside(decision: Decision, facts: Facts) -> Iterator[Discrepancy]:
    """Compare what is said of visits where last values count.

    Visits that come later with the last values of before, and such that are forgotten, leave the
    digest as it was.
    """
    if decision.by_visits is not None:
        differs = decision.by_visits != facts.by_visits
        reason = "by now visits show something else" * differs
        yield Discrepancy("by visits", reason, is_certain=False)
    if decision.came_back or facts.came_back:
        reason = _OTHERWISE * (facts.came_back is False)
        if not decision.came_back and has_tests_of_now(decision):
            reason = "by now users have come back"
        yield Discrepancy("came back", reason, is_certain=False)


def departures_of_tests(decision: Decision) -> Iterator[Discrepancy]:
    """Yield where the tests of a file are not those of its question, fixed before the users."""
    tested = decision.confirmation
    users = decision.users if tested is None else tested.searched
    counted = {USERS: users} | {
        days_in_words(side["after"]): side["users"]
        for side in (decision.proof or {}).get("allow", {}).get("links", [])
        if isinstance(side.get("after"), float | int) and isinstance(side.get("users"), int)
    }
    try:
        known_proof = tests_of(decision, counted).proof
        if known_proof and "days" not in (decision.proof or {}).get("allow", {}):
            known_proof["allow"].pop("days", None)  # files of before do not tell it
        proofs = [("proof", decision.proof, known_proof)]
    except UndecidableError:  # the file lacks the users of a unit that it is about
        yield Discrepancy("proof", _NOT_ASKED)
        return
    if tested is not None:
        rest, level = tests_of_others(decision, decision.users - users, len(tested.chains))
        if tested.level != level:
            yield Discrepancy("confirmation.level", _NOT_ASKED)
        proofs.append(("confirmation.proof", tested.proof, rest.proofs(1)))
    for name, proof, known in proofs:
        if has_tests_of_now(decision):
            # Only of this version's tests: of an earlier one numbers may differ and be as good.
            found = _other_numbers(proof, known, name)
            # One of each proof, the surest: an array that differs does so in a thousand places.
            yield from sorted(found, key=lambda each: not each.is_certain)[:1]


def _other_numbers(claim: Any, found: Any, path: str) -> Iterator[Discrepancy]:
    """Yield where tests are others; of what SciPy finds only that nobody can tell when it was."""
    if isinstance(claim, dict) and isinstance(found, dict) and claim.keys() == found.keys():
        for name, value in claim.items():
            yield from _other_numbers(value, found[name], f"{path}.{name}")
    elif isinstance(claim, list | tuple) and isinstance(found, list | tuple):
        if len(claim) != len(found):
            yield Discrepancy(path, _OTHER_TESTS, is_certain=False)
        if are_same_numbers(claim, found):
            return
        for one, other in zip(claim, found, strict=False):
            yield from _other_numbers(one, other, path)
    else:
        # `isclose` of a whole number of 400 digits, which no float holds, is an error of its own.
        numbers = [type(value) in {int, float} and abs(value) < 1e300 for value in (claim, found)]
        alike = all(numbers) and math.isclose(claim, found, rel_tol=_AS_FOUND, abs_tol=_LEAST)
        # `True == 1` to Python, and a file may hold either.
        if not alike and (claim != found or type(claim) is not type(found)):
            of_question = not {*path.split(".")}.isdisjoint(_ASKED)
            yield Discrepancy(path, _NOT_ASKED if of_question else _OTHER_TESTS, of_question)


def _is_coverage_of(decision: Decision, facts: Facts) -> bool:
    k, users = decision.policy.k, decision.all_observed
    claims, found = decision.coverage or {}, facts.coverage
    return claims.keys() == found.keys() and all(
        _alike(claims[api], found[api]) or _masked_by(k, claims[api], found[api], users)
        for api in claims
    )


def _alike(share: float | None, other: float | None) -> bool:
    if share is None or other is None:
        return share is other
    return math.isclose(share, other, rel_tol=_ROUNDING)


def _masked_by(k: int, claim: float | None, found: float | None, users: int) -> bool:
    """Whether a share is told as files of before do, which hid fewer users than k."""
    having = users * (found or 0)
    return (claim is None and having < k) or (claim == 1 and users - having < k)


def bear_out(
    population: Population,
    decision: Decision,
    listed: Collection[ListedQuestion],
    *,
    with_names: bool = True,
) -> bool:
    """Check that the users bear out what a decision says of them, and each of its lists.

    Tests are made anew, never those of the file.

    Args:
        with_names: Whether names of APIs that the log does not know any more count.

    Returns:
        bool: Whether they are the users that were decided on; of others nothing is told.

    Raises:
        InputError: They do not, and the message names the member.
    """
    if not are_users_decided_on(population, decision):
        return False
    for each in departures(decision, facts_of(population, decision, listed)):
        if each.reason and each.is_certain and (with_names or each.claim != "names"):
            raise not_credible(f"`{each.claim}`, {each.reason}")
    # An exact decision has no tests: its lists are counts.
    for each in () if decision.is_exact else departures_of_tests(decision):
        if each.reason and each.is_certain:
            raise not_credible(f"`{each.claim}`, {each.reason}")
    # Others are told masked spectra, which need not settle what all the users do.
    if population.audience is Audience.OWNER:
        check_lists(population, decision)
    return True


def count_spectra(
    population: Population,
    decision: Decision,
    listed: Collection[ListedQuestion] = (),
    *,
    exact: bool,
    counters: tuple[str, ...] | None = None,
) -> DecisionSpectra:
    """Count the groups of the listed sets of a decision on the users that it was made of.

    Args:
        exact: Do not pool groups of fewer than k users; for the owner of the data only.
    """
    exact = may_count_below(population.audience, wanted=exact)
    # Null: groups as they are, for the owner.
    k = None if exact else decision.policy.k
    eligible_users = users_decided_on(population, decision)
    if decision.policy.cohorts is not None and not exact:
        raise InputError(
            "spectra: tests of cohorts do not read pooled groups of fewer than k",
            hint="--unsafe-counts, if they stay with you",
        )
    facts = replace(facts_of(population, decision, listed), counters=counters)
    tested = decision.confirmation
    others: list[SetGroups] = []
    source: SpectrumSource
    if tested is None:
        source = source_of(eligible_users, decision)
    else:
        source, rest = divided_again(eligible_users, decision, tested)
        if source.least is None:
            anew = searched_again(decision, source, rest, chains=len(tested.chains))
            chains = () if anew.confirmation is None else anew.confirmation.chains
            lists = {name: getattr(anew, name) for name in ("allow", "block", "undecided")}
            facts = replace(facts, again=SearchedAgain(chains=chains, **lists))
        # Sets of chains were tested on the others alone, by the values that counted there.
        chained = sorted({apis for chain in tested.chains for apis in chain})
        chained_spectra = rest.kept_spectra(chained, tested.level)
        others = [*map(partial(_groups, source, k), chained, chained_spectra)]
    if decision.declared is not None and isinstance(source, LevelSource):
        facts = replace(facts, declared=source.declared)
    if decision.by_visits is not None:
        facts = replace(facts, by_visits=by_visits_of(eligible_users, decision, source))
    told_possible = decision.users_possible is not None or has_tests_of_now(decision)
    if told_possible and tested is None:
        possible = possible_of(source, decision, decision.undecided)
        facts = replace(facts, users_possible=possible)
    is_foretold = not (decision.users_needed is None and decision.users_range is None)
    if is_foretold and tested is None:
        facts = replace(facts, **forecast_of(source, decision, decision.undecided))
    unions = (decision.union(one.apis) for one in decision.union_with)
    sets = [*decision.allow, *decision.block, *decision.undecided, *unions]
    found = map(
        partial(_groups, source, k), map(decision.lattice.spelled, sets), source.spectra(sets)
    )
    return DecisionSpectra(
        digest=decision.digest,
        spectra=tuple(found),
        others=tuple(others),
        facts=facts,
    )


def _groups(
    source: SpectrumSource, k: int | None, words: Sequence[str], spectrum: CountSpectrum | None
) -> SetGroups:
    """Return the groups of a set, those of fewer than k users pooled where a k is given."""
    if spectrum is None:
        return SetGroups(apis=tuple(words), groups=())
    if source.least is not None:
        return SetGroups(apis=tuple(words), groups=tuple(source.ranges(words)))
    units = source.parts if isinstance(source, SourceBeside) else {USERS: source}
    told = {}
    for name, each in units.items():
        one = unit_spectrum(spectrum, name)
        if k is None:
            told[name] = tuple(one.groups())
        elif isinstance(each, VisitSource):
            told[name] = tuple(publishable_draws(one, DRAWS, k))
        else:
            told[name] = tuple(publishable_groups(one, k))
    of_users = unit_spectrum(spectrum, USERS)
    within = of_users.groups_by_cohort() if isinstance(of_users, CohortSpectrum) else ()
    return SetGroups(apis=tuple(words), groups=told.pop(USERS), cohorts=within, beside=told)


def read_spectra(path: Path, decision: Decision) -> DecisionSpectra:
    """Read the spectra of a decision.

    Raises:
        InputError: No such file, not JSON, not spectra, or of another decision.
    """
    hint = "write them with `fpmonitor audit certificate ... --write-spectra FILE`"
    spectra = typed(read_json(path, "spectra", hint=hint), DecisionSpectra, "spectra", hint=hint)
    listed, tested = {*decision.allow, *decision.block, *decision.undecided}, decision.confirmation
    listed |= {decision.union(one.apis) for one in decision.union_with}
    wanted = {*map(decision.lattice.spelled, listed)}
    chained = set() if tested is None else {apis for chain in tested.chains for apis in chain}
    lacking = wanted - {one.apis for one in spectra.spectra}
    lacking |= chained - {one.apis for one in spectra.others}
    if spectra.digest != decision.digest or lacking:
        raise InputError(f"spectra {path}: of another decision", hint=hint)
    return spectra
