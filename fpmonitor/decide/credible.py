"""What a decision file says that does not follow from the rest of it: no data are needed to see it.

A command that carries a decision out refuses such a file; `audit certificate` lists all of it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from fpmonitor.decide.coherence import Names, TooManyStepsError, uncovered
from fpmonitor.decide.files import NOT_TOLD, otherwise, read_any_decision
from fpmonitor.errors import InputError
from fpmonitor.policy import AS_OBSERVED, NO_DEPARTURE
from fpmonitor.population.levels import level_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from fpmonitor.decide.decision import Decision

_ROUNDING = 1e-9
_SIGNS = {"allow": -1, "block": 1}
_FEW_STEPS = 3_000  # a tenth of a second
_MOST_VECTORS = 100_000


class Discrepancy(NamedTuple):
    """A claim of a decision, and why it is wrong, or may be; empty if it is not."""

    claim: str
    reason: str
    is_certain: bool = True


def read_credible_decision(
    path: Path, read: Callable[[Path], Decision] = read_any_decision
) -> Decision:
    """Read a decision file that is to be carried out.

    Raises:
        InputError: A member does not follow from the others.
    """
    return credible(read(path), path)


def credible(decision: Decision, path: Path) -> Decision:
    """Return a decision that was read and is to be carried out; errors as of the above."""
    proof = Discrepancy("proof", _other_question(decision))
    # Files of before, and those that people write, may list less: what no list settles is withheld.
    lists = [*_lists(decision, _FEW_STEPS)] if is_of_now(decision) else []
    for claim, reason, is_certain in (proof, _utility(decision), *lists):
        if reason and is_certain:
            raise not_credible(f"{path}: `{claim}`, {reason}")
    return decision


def not_credible(what: str) -> InputError:
    """Return the refusal of a decision file."""
    return InputError(
        f"the decision file is not to be trusted: {what}",
        hint="decide again; `fpmonitor audit certificate` lists all that is wrong",
    )


def has_tests_of_now(decision: Decision) -> bool:
    """Whether a file has tests as they are made now: a single design is of before."""
    return any("designs" in side for side in (decision.proof or {}).values())


def is_of_now(decision: Decision) -> bool:
    """Whether `decide` wrote a file lately, with all members: those of before tell fewer.

    So does what a service makes of its lists by the users of now.
    """
    return decision.made is not None or (bool(decision.components) and has_tests_of_now(decision))


def departures_within(decision: Decision, content: Mapping[str, Any]) -> Iterator[Discrepancy]:
    """Judge what a decision says by its other members; `content` is its file."""
    yield from _lists(decision)
    of_sets = _utility(decision)
    yield of_sets if of_sets.reason else _bound(decision)
    written = _as_written(decision).to_json()
    found = (
        Discrepancy("members", f"`{member}` {how}", is_certain=how != NOT_TOLD)
        for member, how, _ in otherwise({**content, "guarantee": ""}, {**written, "guarantee": ""})
    )
    yield next(found, Discrepancy("members", ""))


def _as_written(decision: Decision) -> Decision:
    """Return a decision with its lists as `decide` writes them."""
    lattice, lists = decision.lattice, dict[str, Any]()
    for name in ("allow", "block", "undecided"):
        lists[name] = lattice.listed(getattr(decision, name))
    for name in ("recommended", "must"):
        lists[name] = lattice.finest(getattr(decision, name))
    return replace(decision, **lists, never=tuple(sorted({*decision.never})))


def _lists(decision: Decision, most_steps: int | None = None) -> Iterator[Discrepancy]:
    """Judge whether the lists settle all sets; `most_steps` limits their comparison."""
    tested = decision.confirmation
    if tested is not None:  # sets of no chain are settled by nobody
        allowed = all(any({*one} <= {*apis} for apis in decision.allow) for one in tested.confirmed)
        blocked = all(any({*apis} <= {*one} for apis in decision.block) for one in tested.refuted)
        reason = "" if allowed and blocked else "a set that was confirmed or refuted is missing"
        yield Discrepancy("lists", reason)
        return
    try:
        found = _uncovered(decision, most_steps)
    except TooManyStepsError:
        yield Discrepancy("lists", "too long to compare", is_certain=False)
        return
    unsettled = "" if found is None or not decision.complete else f"none settles {found}"
    yield Discrepancy("lists", unsettled)
    if found is None and not decision.complete and decision.cut is None:
        reason = "the lists settle every set, and may be all"
        yield Discrepancy("complete", reason, is_certain=False)


def _other_question(decision: Decision) -> str:
    """Say of which other question the proof of a decision is."""
    policy, level = decision.policy, decision.scored_at
    if not decision.proof:
        return ""
    if level is None or decision.setting == "sample":
        return f"of another question: {'delta' if level is None else 'setting'}"
    sides: Mapping[str, Any] = decision.proof
    for name, side in sides.items():
        halved = policy.realised and name == "allow"
        question_members: dict[str, float] = {
            "k": policy.k,
            "population": policy.population,
            "sign": _SIGNS[name],
        }
        question_members |= {"delta": level / 2 if halved else level}
        # Else tests are of another budget: less who is unobserved, or an average.
        if policy.sample.departure == NO_DEPARTURE and not halved:
            question_members |= {"budget": policy.budget}
        for design in [side, *(side.get("designs") or ())]:
            for member, value in question_members.items():
                if design.get(member, value) != value:
                    return f"of another question: {member}"
            if halved and design.get("budget") == policy.budget:
                return "of another question: realised"
        designs = side.get("designs") or [side]
        observed = all(tuple(one.get("factors", AS_OBSERVED)) == AS_OBSERVED for one in designs)
        observed = observed and all(one.get("bias", 1) == 1 for one in designs)
        if observed != (policy.sample.departure.factors == AS_OBSERVED):
            return "of another question: sample"
    return ""


def _utility(decision: Decision) -> Discrepancy:
    """Judge the weight of the recommended set, and what no allowed set is said to exceed."""
    utility, bound = decision.utility, decision.utility_bound
    # files of before do not tell their weights
    is_told = bool(decision.weights) or is_of_now(decision)
    if utility is None or bound is None:
        return Discrepancy("utility", "it is not told" * is_told, is_certain=is_told)

    lattice = decision.lattice

    def alike(claim: float, found: float) -> bool:
        return math.isclose(claim, found, rel_tol=_ROUNDING)

    if decision.complete and not alike(bound, utility):
        return Discrepancy("utility", "`utility_bound` is not met")
    must, never = {*decision.must}, {*decision.never}
    allowed = ({*apis} - never for apis in decision.allow if must <= lattice.closed(apis))
    best = max((lattice.utility_of(tuple(apis)) for apis in allowed), default=0.0)
    claimed = lattice.utility_of(decision.recommended) if decision.has_recommended else 0.0
    reason = ""
    if not alike(utility, claimed):
        reason = "it is not the weight of `recommended`"
    elif not (alike(utility, best) or decision.cut):
        reason = "a set of `allow` has more than `recommended`"
    return Discrepancy("utility", reason, is_certain=is_told)


def _bound(decision: Decision) -> Discrepancy:
    """Judge what no allowed set of a search that was stopped is said to exceed."""
    # a gate answers by the file alone, and waits for no library of numbers
    from fpmonitor.decide.search import Sought  # noqa: PLC0415
    from fpmonitor.decide.utility import weight_bound  # noqa: PLC0415

    if decision.complete or decision.utility_bound is None or decision.components:
        return Discrepancy("utility", "")
    refused = [*decision.block, *decision.undecided]
    free = [api for api in decision.evident if api not in decision.never]
    most = weight_bound(free, refused, Sought(weights=decision.weights, must=decision.must))
    short = decision.utility_bound < most * (1 - _ROUNDING)
    return Discrepancy("utility", "the lists give a higher bound" * short, is_certain=False)


def _uncovered(decision: Decision, most_steps: int | None) -> str | None:
    """Return what no list settles."""
    if decision.components:
        return _unsettled_levels(decision, _MOST_VECTORS if most_steps is None else most_steps)
    must, never = set(decision.must), {*decision.never, *decision.no_evidence}
    refused = [
        set(apis) - must
        for apis in (*decision.block, *decision.undecided)
        if never.isdisjoint(apis)
    ]
    # What is refused alone is in no open set, and 1,500 of them would divide the sets as often.
    never |= {api for apis in refused if len(apis) == 1 for api in apis}
    found = uncovered(
        [api for api in decision.policy.candidates if api not in must | never],
        [
            set(apis) - must - never
            for apis in decision.allow or [()]
            if must <= {*apis} or not apis
        ],
        [apis for apis in refused if never.isdisjoint(apis)],
        most_steps,
    )
    return None if found is None else ", ".join(sorted(found | must)) or "nothing"


def _unsettled_levels(decision: Decision, most_vectors: int) -> str | None:
    """Return levels that no list settles, as NAME=LEVEL; null where none are.

    Raises:
        TooManyStepsError: There are too many vectors to look at each.
    """
    lattice, components = decision.lattice, decision.components
    ranges = [range(each.least, each.most + 1) for each in components]
    # A file may name 64 levels of any number of components.
    if math.prod(map(len, ranges)) > most_vectors:
        raise TooManyStepsError
    must, never = {*decision.must}, {*decision.never}
    closed, listed = [*map(lattice.closed, decision.allow)], (*decision.block, *decision.undecided)
    names = Names(closed, listed, [lattice.utilities])
    allowed, refused = names.family(closed), names.family(listed)
    for vector in product(*ranges):
        words = level_words(components, vector)
        shown = lattice.closed(words)
        is_asked, members = must <= shown and never.isdisjoint(shown), names.mask(shown)
        if is_asked and not (allowed.has_superset(members) or refused.has_subset(members)):
            return ", ".join(lattice.spelled(words))
    return None
