"""What a decision rests on: count spectra of its listed sets, and what it says of its users."""

from __future__ import annotations

import math
from collections.abc import Mapping  # noqa: TC003 -- msgspec reads the annotation
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fpmonitor.answers.decide import (
    asked_question,
    question_of,
    registered_in_log,
    users_decided_on,
    users_tested,
)
from fpmonitor.decide.level_decision import LevelDecision
from fpmonitor.decide.questions import level_of, questions_before
from fpmonitor.decide.view_weight import SEARCH_SHARE
from fpmonitor.disclosure import may_count_below, publishable_groups
from fpmonitor.errors import InputError
from fpmonitor.population.evidence import Lack  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.population.level_source import LevelSource
from fpmonitor.safe_files import read_json, typed, untyped
from fpmonitor.spectrum import spectra_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from fpmonitor.decide.decision import ApiSet, Decision
    from fpmonitor.decide.questions import ListedQuestion
    from fpmonitor.policy import Policy
    from fpmonitor.population.levels import Vector
    from fpmonitor.population.population import Population
    from fpmonitor.spectrum import CountSpectrum, SpectrumSource

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGroups:
    """The groups of one set: so many users (last) are in groups of so few to so many."""

    apis: tuple[str, ...]
    groups: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What else a decision says of the users that it was made of.

    Attributes
    ----------
    names, coverage, masked
        As in `Decision`.
    lacks
        Candidates without evidence, and why; null in files of before.
    level, registered, view_weight
        As of `decide.questions.Level`: what its question has in this database.
    asked_before
        As in `Decision`; null where the database does not list the question.
    """

    names: Mapping[str, str]
    coverage: Mapping[str, float | None]
    masked: tuple[str, ...]
    lacks: Mapping[str, Lack] | None = None
    level: float | None = None
    registered: bool = False
    view_weight: float | None = None
    asked_before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSpectra:
    """The groups of all listed sets of a decision.

    Attributes
    ----------
    digest
        That of the decision.
    spectra
        Sets that are allowed, blocked or undecided; level vectors as `NAME=LEVEL`. Where some
        users were searched and others confirmed, of those who were searched.
    others
        Sets that were tested on the others, by the values that counted.
    facts
        Null in files of before.
    """

    digest: str
    spectra: tuple[SetGroups, ...]
    others: tuple[SetGroups, ...] = ()
    facts: Facts | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the spectra as they stand in a file."""
        content: dict[str, Any] = untyped(self)
        return content


def facts_of(
    population: Population,
    decision: Decision | LevelDecision,
    listed: Collection[ListedQuestion],
) -> Facts:
    """Find again what a decision says of its users.

    Parameters
    ----------
    population
        The users, seen as the decision saw its own.
    decision
        The decision.
    listed
        Questions that their database lists; none where no database holds them.

    Raises
    ------
    UnknownNameError
        An API that the users lack.
    """
    k, candidates = decision.policy.k, decision.policy.candidates
    asked = population.asked(question_of(decision), candidates)
    facts = Facts(
        names=population.names(candidates),
        coverage=population.coverage(candidates, k),
        masked=asked.masked(candidates, k),
        lacks=population.lacks(candidates, k),
    )
    if isinstance(decision, LevelDecision) or decision.policy.delta is None:
        return facts
    question = asked_question(
        population, _as_asked(decision.policy), setting=decision.setting, missing=decision.missing
    )
    registered = registered_in_log(population, [q.question for q in listed if q.answer is None])
    level = level_of(question, registered, universe=decision.universe)
    whole = 1 if decision.confirmation is None else SEARCH_SHARE
    return replace(
        facts,
        level=level.level and level.level * whole,
        registered=level.registered,
        view_weight=level.view_weight,
        asked_before=questions_before(
            question, listed, fixed=decision.universe is None, users=decision.users
        ),
    )


def _as_asked(policy: Policy) -> Policy:
    """Return a policy without what a draw added to it."""
    strata = policy.sample.strata
    if strata is None:
        return policy
    asked = replace(strata, left_out=(), expected=None)
    return replace(policy, sample=replace(policy.sample, strata=asked))


def departures(decision: Decision | LevelDecision, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield each claim on the users of a decision, and why it is wrong; the empty string if not."""
    for name in ("names", "coverage", "masked"):
        told, found = getattr(decision, name), getattr(facts, name)
        if told is None or (name == "coverage" and not found):
            continue  # a file of before
        differing = told != found
        if name == "coverage":
            differing = told.keys() != found.keys() or not all(map(_alike, *_pairs(told, found)))
        yield name, "not as in the data" if differing else ""
    said = {**decision.no_evidence, **decision.assumed}
    if said and facts.lacks is not None:  # files of before say nothing
        yield "evidence", "" if said == facts.lacks else "not as in the data"
    if isinstance(decision, LevelDecision) or decision.level is None:
        return
    reason = ""
    if decision.registered != facts.registered:
        reason = "the database does not list it so"
    yield "registered", reason
    reason = ""
    for name in ("level", "view_weight"):
        told, most = getattr(decision, name), getattr(facts, name)
        if (told is None) != (most is None) or (told or 0) > (most or 0) * (1 + _ROUNDING):
            reason = f"`{name}` is more than the question may have"
    yield "level", reason
    if facts.asked_before is not None and not decision.registered:
        fewer = decision.asked_before < facts.asked_before
        yield "asked before", f"it was {facts.asked_before:,} other questions" if fewer else ""


def _pairs(
    told: Mapping[str, float | None], found: Mapping[str, float | None]
) -> tuple[list[float | None], list[float | None]]:
    return [told[api] for api in told], [found[api] for api in told]


def _alike(share: float | None, other: float | None) -> bool:
    if share is None or other is None:
        return share is other
    return math.isclose(share, other, rel_tol=_ROUNDING)


def check_users(
    population: Population,
    decision: Decision | LevelDecision,
    listed: Collection[ListedQuestion],
) -> None:
    """Check that what a decision says of its users is so.

    Parameters
    ----------
    population, decision, listed
        As of `facts_of`.

    Raises
    ------
    InputError
        It is not, and the message names the member; or they are other users.
    """
    users_decided_on(population, decision)
    for claim, reason in departures(decision, facts_of(population, decision, listed)):
        if reason:
            raise InputError(
                f"the decision file is not to be trusted: `{claim}`, {reason}",
                hint="decide again; `fpmonitor audit certificate` lists all that is wrong",
            )


def count_spectra(
    population: Population,
    decision: Decision | LevelDecision,
    listed: Collection[ListedQuestion] = (),
    *,
    exact: bool,
) -> DecisionSpectra:
    """Count the groups of the listed sets of a decision on the users that it was made of.

    Parameters
    ----------
    population, decision, listed
        As of `facts_of`.
    exact
        Do not pool groups of fewer than k users; for the owner of the data only.

    Raises
    ------
    InputError
        They are other users.
    PolicyError
        Exact groups are wanted for others.
    """
    exact = may_count_below(population.audience, wanted=exact)
    asked = users_decided_on(population, decision)

    def groups(words: Iterable[str], spectrum: CountSpectrum | None) -> SetGroups:
        if spectrum is None:
            return SetGroups(apis=tuple(words), groups=())
        found = spectrum.groups() if exact else publishable_groups(spectrum, decision.policy.k)
        return SetGroups(apis=tuple(words), groups=tuple(found))

    facts = facts_of(population, decision, listed)
    if isinstance(decision, LevelDecision):
        users = LevelSource(users_tested(asked, decision), decision.components)
        vectors = [*decision.allow, *decision.block, *decision.undecided]
        found = [groups(_words(decision, vector), users.spectrum(vector)) for vector in vectors]
        return DecisionSpectra(digest=decision.digest, spectra=tuple(found), facts=facts)
    candidates, tested = decision.policy.candidates, decision.confirmation
    others: list[SetGroups] = []
    source: SpectrumSource
    if tested is None:
        source = asked.source(candidates)
    else:
        source, rest = asked.searched_and_rest(tested.searched, candidates)
        chained = sorted({apis for chain in tested.chains for apis in chain})
        others = [*map(groups, chained, rest.kept_spectra(chained, tested.level))]
    sets = [*decision.allow, *decision.block, *decision.undecided]
    return DecisionSpectra(
        digest=decision.digest,
        spectra=tuple(map(groups, sets, spectra_of(source, sets))),
        others=tuple(others),
        facts=facts,
    )


def _words(decision: LevelDecision, vector: Vector) -> list[str]:
    return [f"{name}={level}" for name, level in decision.shown(vector).items()]


def read_spectra(path: Path, decision: Decision | LevelDecision) -> DecisionSpectra:
    """Read the spectra of a decision.

    Raises
    ------
    InputError
        No such file, not JSON, not spectra, or of another decision.
    """
    hint = "write them with `fpmonitor audit certificate ... --write-spectra FILE`"
    spectra = typed(read_json(path, "spectra", hint=hint), DecisionSpectra, "spectra", hint=hint)
    listed = {*decision.allow, *decision.block, *decision.undecided}
    if isinstance(decision, LevelDecision):
        wanted = {tuple(_words(decision, vector)) for vector in listed}
        chained: set[ApiSet] = set()
    else:
        wanted, tested = listed, decision.confirmation
        chained = set() if tested is None else {apis for chain in tested.chains for apis in chain}
    lacking = wanted - {one.apis for one in spectra.spectra}
    lacking |= chained - {one.apis for one in spectra.others}
    if spectra.digest != decision.digest or lacking:
        raise InputError(f"spectra {path}: of another decision", hint=hint)
    return spectra
