"""What decisions and limits promise, in words: one function a clause.

The theorem bounds the statistical exposure, an expectation: see docs/certificate.md. Which words
stand for which assumption, and what breaks it, is a table there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.errors import some_of
from fpmonitor.policy import (
    PLAIN_DRAWS,
    UNIVERSE,
    UP,
    as_written,
    disclosed_from,
    per_cent,
    rounded,
    sureness,
)
from fpmonitor.population.evidence import lack_in_words
from fpmonitor.unit import VISITOR_RULE, spoken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.decide.decision import ByVisits, Decision
    from fpmonitor.policy import CohortBudget, Drawn, LinkBudget, SampleModel
    from fpmonitor.unit import Unit

FULL_COVERAGE = 0.99  # below it, a decision says who lacks a candidate
FIRST_LOOK = "The number of users at this first look must not depend on their values."
_NAMED = 3
_WHAT_ELSE = "`guarantee` in the file, and docs/certificate/sentences.md."


def guarantee(decision: Decision) -> str:
    """Say what holds, for whom, and on what assumptions, by the other members of a decision."""
    said = " ".join(filter(None, (clause(decision) for clause in _CLAUSES)))
    return spoken(said, decision.unit)


def limits(
    *,
    population: int,
    users: int,
    delta: float,
    together: bool = False,
    sample: SampleModel = PLAIN_DRAWS,
    unit: Unit = "user",
) -> str:
    """Say what limits of exposures promise: each for its set, or all sets together."""
    whose = (
        "All limits hold together with probability {}, whichever sets are chosen after looking"
        if together
        else "Each limit holds with probability {} for a set named before looking"
    )
    looks = "however often one asks again while users are added"
    if sample.looked_at_once:
        looks = "asked once" + ", of users drawn by the shares of strata" * bool(sample.strata)
    said = (
        f"{whose.format(sureness(delta))}, {looks}, for the average over populations of "
        f"{population:,}, if the {users:,} observed users and theirs are {draws(sample)}."
        + f" {unobserved(sample)}".rstrip()
    )
    return spoken(said, unit)


def draws(sample: SampleModel) -> str:
    """Say how the observed users and those of the population came to be what they are."""
    said = "independent draws" + f", one of each {sample.cluster}," * bool(sample.cluster)
    if sample.bias == 1:
        said += " from one distribution"
    else:
        said = (
            f"{said.removesuffix(',')}, and no kind of user is more than {sample.bias:g} times as "
            "frequent among the ones as among the others"
        )
    if sample.fake_share:
        said += (
            f"; up to {per_cent(sample.fake_share)} % of those observed may be no users, whatever "
            "they look like and whoever added them"
        )
    if sample.strata is not None:
        strata, number = sample.strata, len(sample.strata.shares) - len(sample.strata.left_out)
        said += f", within each of the {number} strata of {strata.by}, whose shares are taken " + (
            "as given" if strata.exact else "to be within the limits that were given"
        )
    if sample.rows_are_users:
        said += "; each row is taken for a user"
    return said


def who_was_drawn(drawn: Drawn | None) -> str:
    """Say how many users count where not all that were observed do."""
    if drawn is None:
        return ""
    said = f"{drawn.users:,} of {drawn.observed:,} users could be drawn"
    if drawn.cluster is not None:
        said += f", one of each {drawn.cluster}"
    if drawn.binding is not None:
        said += "," * (drawn.cluster is not None)
        said += f" by the shares of the strata, until {drawn.binding} had none left"
    return f"{said}."


def unobserved(sample: SampleModel) -> str:
    """Say of whom nobody counted, and what is taken of them."""
    if sample.strata is None or not sample.strata.left_out:
        return ""
    named = some_of(sample.strata.left_out, _NAMED)
    most = rounded(100 * as_written(sample.strata.departure().unobserved), UP)
    return (
        f"Nobody of {named} was drawn: all of these, up to {most:f} % of the population, count as "
        "exposed."
    )


def scarce(coverage: Mapping[str, float | None]) -> list[tuple[str, float | None]]:
    """APIs that too many users lack, and the share that has them, the rarest first."""
    lacked = [
        (api, share) for api, share in coverage.items() if share is None or share < FULL_COVERAGE
    ]
    return sorted(lacked, key=lambda entry: (entry[1] or 0, entry[0]))


def _promise(decision: Decision) -> str:
    """Say the sentence that the theorem proves."""
    policy = decision.policy
    exposed = (
        f"exposes at most {per_cent(policy.budget)} % of the users, by putting them into groups "
        f"of fewer than {policy.k:,}"
    )
    if policy.cohorts is not None:
        exposed += f", and at most {in_cohorts(policy.cohorts)}, seen or not"
    if policy.links is not None:
        exposed += f", and lets at most {_linked(policy.links)}"
    if decision.setting == "sample" or policy.delta is None:
        return (
            f"Among the {decision.users:,} observed users, {_promised(decision)} {exposed}: exact."
        )
    whom = "in a population" if policy.realised else "on average over populations"
    theirs = "those of the population" if policy.realised else "theirs"
    others = " from whom no level was designed" if decision.design else ""
    return (
        f"With probability at least {sureness(policy.delta)}, {_promised(decision)} {exposed}, "
        f"{whom} of {policy.population:,}, {_choice(decision)} the {decision.users:,} observed "
        f"users{others} and {theirs} are {draws(policy.sample)}."
    )


def _promised(decision: Decision) -> str:
    """Name the sets of which the sentence is."""
    if decision.components:
        return "every level vector on the allow list, like every coarser one,"
    return "every set on the allow list"


def _fixed(decision: Decision) -> str:
    """Say what must have been fixed before the users were seen."""
    cohorts = decision.policy.cohorts
    if cohorts is not None and cohorts.menu:
        return "this question, up to what is chosen of the menu, and its view of the users"
    if not decision.components:
        return "this question and its view of the users"
    designed = ", how others are designed" if decision.design else ""
    return f"this question, its levels{designed} and its view of the users"


def _choice(decision: Decision) -> str:
    """Say what may be chosen after looking, up to the assumption."""
    looks = "however often this question is decided anew while users are added, provided that"
    sample = decision.policy.sample
    if decision.looked_at_once:
        drawn = ", of users drawn by the shares of strata" * bool(sample.strata)
        looks = f"decided once{drawn}, provided that"
    elif sample.look == "first":
        looks += " the number of users at this first look did not follow from their values and that"
    if decision.registered:
        return f"as registered before the first user was stored, and {looks}"
    if decision.universe is None:
        # Another number of users to search among is another division of them, and another test.
        searched = " and the number of users to search among" * bool(decision.confirmation)
        return f"{looks} {_fixed(decision)}{searched} were fixed before the data were seen and that"
    chosen, fixed = "APIs and view of the users are", ""
    if decision.follows_from_candidates:
        chosen, fixed = "view of the users is", "the candidates, "
    *numbers, last = [
        *("k", "population", "budget"),
        *["bias"] * (sample.bias != 1),
        *["shares"] * (sample.strata is not None),
        *["clusters"] * (sample.cluster is not None),
        *["the share of those who are no users"] * (sample.fake_share > 0),
        *_cohorts_fixed(decision.policy.cohorts),
        *["the budget of links with its days"] * (decision.policy.links is not None),
        *["the names of APIs in the first log"] * bool(decision.first_names),
        # above so many the levels follow from the number that is recorded
        *["the largest number of APIs"] * (decision.universe > UNIVERSE),
    ]
    return (
        f"whichever {chosen} chosen after looking and {looks} {fixed}{', '.join(numbers)} and "
        f"{last} were fixed before the data were seen and that"
    )


def _cohorts_fixed(cohorts: CohortBudget | None) -> list[str]:
    """Say what must have been fixed of cohorts where APIs are chosen after looking."""
    if cohorts is None:
        return []
    what = "the menu of what defines cohorts" if cohorts.menu else "the cohorts"
    return [f"{what} with their budget and least share"]


def in_cohorts(cohorts: CohortBudget) -> str:
    """Say what no cohort may be above, and which cohorts count."""
    which = "any cohorts that together have" if cohorts.worst_share else "each cohort that has"
    return (
        f"{per_cent(cohorts.budget)} % of the users of {which} "
        f"{per_cent(cohorts.least_share)} % of the users or more"
    )


def _cohorts(decision: Decision) -> str:
    """Say what tells cohorts, and to whom nothing is promised."""
    cohorts = decision.policy.cohorts
    if cohorts is None:
        return ""
    menu = f", chosen of a menu of {len(cohorts.menu):,}" if cohorts.menu else ""
    return (
        f"Cohorts are defined by {' and '.join(cohorts.given)}{menu}, which sites see with every "
        "set. "
        f"Nothing is promised to {'fewer users' if cohorts.worst_share else 'smaller cohorts'}."
    )


def _linked(links: LinkBudget) -> str:
    """Say who may be linked, and by what."""
    share = f"{per_cent(links.budget)} % of the users"
    if not links.after:
        return f"{share} be linked from one visit to another, by any means"
    *others, last = (f"{days:g}" for days in links.after)
    days = f"{', '.join(others)} and {last}" if others else last
    return (
        f"{share} who come back after {days} days be linked to their first visit, each time, by "
        "what has not changed"
    )


def _links(decision: Decision) -> str:
    """Say whom a limit of links is about, and what it leaves out."""
    links = decision.policy.links
    if links is None or not links.after:
        return ""
    seen = "" if decision.days is None else f", from {decision.days[0]} to {decision.days[1]}"
    return (
        "A site links by comparing values, or any parts of them. One that knows how values change "
        f"may link more. Nothing is promised to users who come back unlike those of the log{seen}: "
        "on days without a release more can be linked."
    )


_READS = {
    # Of the exposure alone: links are tested by last values. Visits are drawn of those that brought
    # a candidate, so that other candidates would draw others.
    "last+visit": (
        "As surely, a site that reads one visit of each user, and knows no other of them, exposes "
        "no more. That holds for one look, and for {chosen} that were chosen before it."
    ),
    "visit": "A site reads one visit of each user, and knows no other of them.",
    "path": "A site knows its users again, and reads all their visits of {window} in order.",
    "both": (
        "It holds for a site that reads one visit of each user. It holds for a site, too, that "
        "knows its users again, and reads all their visits of {window} in order."
    ),
}
_BEYOND = (
    "Nothing is promised of more days, nor of what the times and numbers of visits and changes "
    "tell."
)


def _visits(decision: Decision) -> str:
    """Say which visits of a user sites read."""
    days = None if decision.scope is None else decision.scope.window_days
    return visits_read(decision, "these days" if days is None else f"these {days:,} days")


def visits_read(decision: Decision, window: str) -> str:
    """Say which visits of a user sites read in a window; nothing where last values count."""
    visits = decision.policy.visits
    if visits == "last":
        return ""
    chosen = "candidates" + " and other decisions" * bool(decision.union_with)
    reads = _READS[visits].format(window=window, chosen=chosen)
    return f"{reads} {_BEYOND}" if visits in {"path", "both"} else reads


_LAST_ALONE = (
    "Users came back, and only their last values were tested: one visit may show more. `--unit "
    "both` tests visits."
)


def _beyond_last(decision: Decision) -> str:
    """Say what last values hide, where visits of before show far more or nobody tested them."""
    found = decision.by_visits
    if found is None:
        return _LAST_ALONE * (decision.came_back and decision.policy.visits == "last")
    both = " and one visit" * (decision.policy.visits == "last+visit")
    return (
        f"Last values{both} count. {by_visits(found)}, with the recommended set. Decide by visits "
        "with `--unit both`."
    )


def by_visits(found: ByVisits) -> str:
    """Say what sites see that know their users again, and of one visit."""
    return (
        f"A site that knows its users again finds {100 * found.path:.3g} % of those observed in "
        f"such groups, by all their visits; by one visit it is {100 * found.visit:.3g} %"
    )


_UNIONS = {
    "allow": "both together keep this promise, too.",
    "block": "both together are above the budget.",
    "undecided": "nothing is promised of both together.",
    "unknown": "both together were not tested, and nothing is promised of them.",
}


def _unions(decision: Decision) -> str:
    """Say what was found of all that a site reads with the set of another decision."""
    return " ".join(
        f"A site may also have the set of the decision {each.digest[:12]} (SHA-256 of its file), "
        f"{', '.join(each.apis)}, beside the recommended one: {_UNIONS[each.verdict]}"
        for each in decision.union_with
    )


def _absent(decision: Decision) -> str:
    """Say what absent counts as, where many lack a value or it does not count as one."""
    lacked = {api for api, _ in scarce(decision.coverage or {})}
    if decision.missing == "value" and not lacked - decision.no_evidence.keys():
        return ""
    return {
        "value": "Users without a value of an API count as if they shared one.",
        "exposed": "Users without a value of an API of a set count as exposed by it.",
        "drop": "Nothing is promised to users without a value of every candidate.",
    }[decision.missing]


def _coverage(decision: Decision) -> str:
    """Name the candidates that many lack."""
    lacked = [
        (api, share)
        for api, share in scarce(decision.coverage or {})
        if api not in decision.no_evidence
    ]
    if not lacked:
        return ""
    few = f"fewer than {disclosed_from(decision.policy.k)} users"
    named = [f"{api} ({few if share is None else f'{100 * share:.3g} %'})" for api, share in lacked]
    return f"Not all users have a value of {some_of(named, _NAMED, last=', and')}."


def _assumed(decision: Decision) -> str:
    """Name the candidates that were taken in without evidence."""
    if not decision.assumed:
        return ""
    named = [
        f"{api} ({lack_in_words(lack, decision.policy.k)})"
        for api, lack in sorted(decision.assumed.items())
    ]
    return f"It is assumed that the data show what these return: {', '.join(named)}."


def _no_evidence(decision: Decision) -> str:
    """Name the candidates of which nothing is known."""
    if not decision.no_evidence:
        return ""
    named = some_of(sorted(decision.no_evidence), _NAMED, last=", and")
    return f"There is no evidence about {named}: no list holds them."


def _masked(decision: Decision) -> str:
    """Name the candidates that are not read as logged."""
    if not decision.masked:
        return ""
    counts = (
        "are left out of every set"
        if decision.view.volatile == "left-out"
        else "count as one for each browser family: a site that removes the noise learns more"
    )
    return f"Values that browsers randomise by design ({', '.join(decision.masked)}) {counts}."


def _visitors(decision: Decision) -> str:
    """Say by what rule visitors were told."""
    return f"Each visitor is {VISITOR_RULE}; a HAR file is one." * (decision.unit == "visitor")


def _confirmed(decision: Decision) -> str:
    """Say what was tested on users of whom the search saw none."""
    tested = decision.confirmation
    if tested is None:
        return ""
    share = "all values" if not tested.level else f"1 in {2**tested.level:,} values"
    secret = ", chosen by a secret hash, with all of their users" if tested.level else ""
    return (
        f"{tested.searched:,} users were searched; what they left open was tested on the other "
        f"{decision.users - tested.searched:,}, by {share}{secret}. "
        "Nobody can see from this file that those sets were chosen without a look at the other "
        "users: only who made it knows."
    )


def _parts(decision: Decision) -> str:
    """Say what the limits follow from where nobody saw a whole record."""
    parts = decision.parts
    if parts is None:
        return ""
    sets = "single APIs" if parts.largest == 1 else f"sets of up to {parts.largest:,} APIs"
    said = f"Nobody saw a whole record of a user: all limits follow from answers on {sets}."
    if parts.randomised:
        said += f" Users randomised those on {some_of(parts.randomised, _NAMED)}."
    return said


def _blocked(decision: Decision) -> str:
    """Say what blocking is about where it is not about the same as allowing."""
    return "Sets are blocked by the average over such populations." * decision.policy.realised


def _unobserved(decision: Decision) -> str:
    """Say of whom nobody counted."""
    return unobserved(decision.policy.sample)


def _asked_before(decision: Decision) -> str:
    """Say how many other questions were asked of the same users."""
    number = decision.asked_before
    if not number:
        return ""
    one = number == 1
    return (
        f"{number:,} other question{'' if one else 's'} {'was' if one else 'were'} asked of these "
        "users before; the promise holds if no answer led to this question."
    )


_CLAUSES = (
    *(_promise, _cohorts, _links, _visits, _beyond_last, _unions, _asked_before, _visitors),
    _confirmed,
    *(_parts, _unobserved, _blocked, _absent, _assumed, _no_evidence, _coverage, _masked),
)


def in_short(decision: Decision) -> tuple[str, ...]:
    """Say for the screen what holds and what it assumes; `guarantee` is the whole sentence."""
    policy, unit = decision.policy, decision.unit
    budget = f"{per_cent(policy.budget)} %"
    # Both are part of the first sentence.
    shown = [clause for clause in _CLAUSES if clause not in {_promise, _beyond_last}]
    others = " ".join(filter(None, (clause(decision) for clause in shown)))
    users = f"the {decision.users:,} observed users"
    if decision.setting == "sample" or policy.delta is None:
        first = f"Counted: no allowed combination exposes more than {budget} of {users}."
        second = "It says nothing of other users."
    else:
        average = "" if policy.realised else ", on average"
        first = (
            f"{sureness(policy.delta, times=100)} % sure: no allowed combination exposes more than "
            f"{budget} of {policy.population:,} users like these{average}."
        )
        if policy.cohorts is not None:
            first = f"{first[:-1]}, nor more than {in_cohorts(policy.cohorts)}."
        if policy.links is not None:
            first += f" None lets more than {_linked(policy.links)}."
        second = f"Assumes {users} are a random sample of them{_departures(policy.sample)}."
        second += f" {_chosen_before(decision)}"
    first = f"{first} {_beyond_last(decision)}".rstrip()
    said = (first, f"{second} More: {_WHAT_ELSE}", others)
    return tuple(spoken(text, unit) for text in said if text)


def _departures(sample: SampleModel) -> str:
    """Say in short how the sample may differ from the population."""
    parts = []
    if sample.strata is not None:
        parts.append(f"within each of the strata of {sample.strata.by}")
    if sample.cluster is not None:
        parts.append(f"one of each {sample.cluster}")
    if sample.bias != 1:
        parts.append(f"with a bias up to {sample.bias:g}")
    if sample.fake_share:
        parts.append(f"up to {per_cent(sample.fake_share)} % of whom may be no users")
    if sample.rows_are_users:
        parts.append("each row is taken for a user")
    return "".join(f", {part}" for part in parts)


def _chosen_before(decision: Decision) -> str:
    """Say in short what had to be chosen before looking, and whether one may look again."""
    looks = "It holds for one look." if decision.looked_at_once else "Rerun it as users arrive."
    if decision.policy.sample.look == "first":
        looks = f"{FIRST_LOOK} {looks}"
    if decision.registered:
        return f"The question was registered before the first user came. {looks}"
    if decision.universe is None:
        return f"The whole question was chosen before looking. {looks}"
    if decision.follows_from_candidates:
        return f"Filters may be chosen after looking; all else before. {looks}"
    free = "APIs and filters may be chosen after looking; k, population and budget before."
    return f"{'By last values, ' * (decision.policy.visits == 'last+visit')}{free} {looks}"
