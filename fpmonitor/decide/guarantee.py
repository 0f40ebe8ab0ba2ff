"""What decisions and limits promise, in words: one function a clause.

The theorem bounds the statistical exposure, an expectation: see docs/certificate.md. Which words
stand for which assumption, and what breaks it, is a table there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fpmonitor.policy import PLAIN_DRAWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.decide.decision import Decision, Setting
    from fpmonitor.policy import Policy, SampleModel
    from fpmonitor.population.views import Volatile
    from fpmonitor.question import Missing

FULL_COVERAGE = 0.99  # below it, a decision says who lacks a candidate
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a promise depends on.

    Attributes
    ----------
    policy, setting, missing, users
        As in `Decision`.
    universe
        Number of APIs any of which may be chosen after looking; null for a question fixed before.
    registered
        Whether it was registered before the first user was stored.
    coverage
        Candidate -> share of the users with an observation of it; null where it may not be told.
    volatile
        As in `View`.
    masked
        Candidates whose volatile values the view masked.
    """

    policy: Policy
    setting: Setting
    users: int
    missing: Missing = "value"
    universe: int | None = None
    registered: bool = False
    coverage: Mapping[str, float | None] = field(default_factory=dict)
    volatile: Volatile = "shared"
    masked: Sequence[str] = ()


def guarantee(terms: Terms) -> str:
    """Say what holds, for whom, and on what assumptions."""
    return " ".join(filter(None, (clause(terms) for clause in _CLAUSES)))


def said_of(decision: Decision) -> str:
    """Say what the other members of a decision stand for: its `guarantee`, if nobody changed it."""
    return guarantee(
        Terms(
            policy=decision.policy,
            setting=decision.setting,
            missing=decision.missing,
            users=decision.users,
            coverage=decision.coverage or {},
            volatile=decision.view.volatile,
            masked=decision.masked or (),
            universe=decision.universe,
            registered=decision.registered,
        )
    )


def limits(
    *,
    population: int,
    users: int,
    delta: float,
    together: bool = False,
    sample: SampleModel = PLAIN_DRAWS,
) -> str:
    """Say what limits of exposures promise: each for its set, or all sets together."""
    whose = (
        "All limits hold together with probability {}, whichever sets are chosen after looking"
        if together
        else "Each limit holds with probability {} for a set named before looking"
    )
    looks = "however often one asks again while users are added"
    if sample.strata is not None:
        looks = "asked once, of users drawn by the shares of strata"
    return (
        f"{whose.format(f'{1 - delta:.6g}')}, {looks}, for the average over populations of "
        f"{population:,}, if the {users:,} observed users and theirs are {draws(sample)}."
    )


def draws(sample: SampleModel) -> str:
    """Say how the observed users and those of the population came to be what they are."""
    said = "independent draws from one distribution"
    if sample.bias != 1:
        said = (
            f"independent draws, and no kind of user is more than {sample.bias:g} times as "
            "frequent among the ones as among the others"
        )
    if sample.strata is not None:
        said += (
            f", within each of the {len(sample.strata.shares)} strata of {sample.strata.by}, whose "
            "shares are taken as given"
        )
    return said


def scarce(coverage: Mapping[str, float | None]) -> list[tuple[str, float | None]]:
    """APIs that too many users lack, and the share that has them, the rarest first."""
    lacked = [
        (api, share) for api, share in coverage.items() if share is None or share < FULL_COVERAGE
    ]
    return sorted(lacked, key=lambda entry: (entry[1] or 0, entry[0]))


def _promise(terms: Terms) -> str:
    """Say the sentence that the theorem proves."""
    policy = terms.policy
    exposed = (
        f"exposes at most {100 * policy.budget:.6g} % of the users, by putting them into groups "
        f"of fewer than {policy.k}"
    )
    if terms.setting == "sample" or policy.delta is None:
        return (
            f"Among the {terms.users:,} observed users, every set on the allow list {exposed}: "
            "exact."
        )
    whom = "in a population" if policy.realised else "on average over populations"
    theirs = "those of the population" if policy.realised else "theirs"
    return (
        f"With probability at least {1 - policy.delta:.6g}, every set on the allow list {exposed}, "
        f"{whom} of {policy.population:,}, {_choice(terms)} the {terms.users:,} observed users and "
        f"{theirs} are {draws(policy.sample)}."
    )


def _choice(terms: Terms) -> str:
    """Say what may be chosen after looking, up to the assumption."""
    looks = "however often this question is decided anew while users are added, provided that"
    if terms.policy.sample.strata is not None:
        looks = "decided once, of users drawn by the shares of strata, provided that"
    if terms.registered:
        return f"as registered before the first user was stored, and {looks}"
    if terms.universe is None:
        return (
            f"{looks} this question and its view of the users were fixed before the data were seen "
            "and that"
        )
    # Without users who lack a candidate, these choose the users.
    chosen, fixed = "APIs and view of the users are", ""
    if terms.missing == "drop":
        chosen, fixed = "view of the users is", "the candidates, "
    numbers = "k, population and budget"
    for number, named in (
        ("bias", terms.policy.sample.bias != 1),
        ("shares", terms.policy.sample.strata is not None),
    ):
        numbers = numbers.replace(" and", ",") + f" and {number}" if named else numbers
    return (
        f"whichever {chosen} chosen after looking and {looks} {fixed}{numbers} were "
        "fixed before the data were seen and that"
    )


def _absent(terms: Terms) -> str:
    """Say what absent counts as, where many lack a value or it does not count as one."""
    if terms.missing == "value" and not scarce(terms.coverage):
        return ""
    return {
        "value": "Users without a value of an API count as if they shared one.",
        "exposed": "Users without a value of an API of a set count as exposed by it.",
        "drop": "Nothing is promised to users without a value of every candidate.",
    }[terms.missing]


def _coverage(terms: Terms) -> str:
    """Name the candidates that many lack."""
    lacked = scarce(terms.coverage)
    if not lacked:
        return ""
    few = f"fewer than {terms.policy.k} users"
    named = [
        f"{api} ({few if share is None else f'{100 * share:.3g} %'})"
        for api, share in lacked[:_NAMED]
    ]
    if len(lacked) > _NAMED:
        named.append(f"and {len(lacked) - _NAMED:,} more")
    return f"Not all users have a value of {', '.join(named)}."


def _masked(terms: Terms) -> str:
    """Name the candidates that are not read as logged."""
    if not terms.masked:
        return ""
    counts = (
        "are left out of every set"
        if terms.volatile == "left-out"
        else "count as one for each browser family: a site that removes the noise learns more"
    )
    return f"Values that browsers randomise by design ({', '.join(terms.masked)}) {counts}."


def _blocked(terms: Terms) -> str:
    """Say what blocking is about where it is not about the same as allowing."""
    return "Sets are blocked by the average over such populations." * terms.policy.realised


_CLAUSES = (_promise, _blocked, _absent, _coverage, _masked)
