"""The sentences of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.render.numbers import between, decimal, percent, significant

if TYPE_CHECKING:
    from fpmonitor.answers.withheld import Withheld
    from fpmonitor.ui.asked import PageQuestion
    from fpmonitor.ui.desk import Explored


def alone_in_words(exposure: float | None) -> str:
    """Say beside an API what it exposes alone; null where there is no evidence."""
    return "no evidence" if exposure is None else percent(exposure)


def sentences(explored: Explored, page_question: PageQuestion) -> dict[str, str]:
    """Say what the ticked APIs expose; `outcome` is the word by which it is coloured."""
    number = len(explored.apis)
    one = "This API exposes" if number == 1 else f"These {number} APIs together expose"
    users = (
        "the users" if page_question.population is None else f"{page_question.population:,} users"
    )
    budget, found = percent(page_question.budget), explored.exposure
    if found is None:
        sentence = f"{one} {percent(explored.observed)} of the {explored.users:,} observed users."
    else:
        limits = between(found.lower, found.upper)
        sentence = f"{one} {limits} of {users}, with 95 % confidence."
    if found is None:
        outcome, against = "counted", f"Limits for {users} follow …"
    elif found.upper <= page_question.budget:
        outcome, against = "allow", f"That is within the {budget} that you accept."
    elif found.lower > page_question.budget:
        outcome, against = "block", f"That is more than the {budget} that you accept."
    else:
        outcome = "undecided"
        against = f"These users do not settle whether it is at most {budget}."
    few = f", {explored.in_few:,} to 2 to {page_question.k - 1}" if page_question.k > 2 else ""
    return {
        "outcome": outcome,
        "sentence": sentence,
        "against": f"{against} Exposed: in a group of fewer than {page_question.k} users.",
        "groups": (
            f"Among {explored.users:,} observed users there are {explored.values:,} combinations "
            f"of values. {explored.alone:,} belong to one user each{few}."
        ),
        "entropy": (
            f"Entropy alone, {decimal(explored.bits)} bits, suggests crowds of about "
            f"{significant(explored.by_entropy)} users. It cannot see who is alone."
        ),
    }


# With a hole for the number: the script fills it in while a slider moves, and need not know words.
WORDS = {
    "k": "A site cannot tell a safe user from at least {} others. The rest are exposed.",
    "budget": "About {} users of the site may be exposed.",
    "n": "Values rarer than about one user in {} expose.",
}


def words_of(page_question: PageQuestion, users: int) -> dict[str, tuple[str, str]]:
    """Say what the sliders mean, and with which words the page says it while one moves."""
    site = page_question.population or users
    numbers = {
        "k": page_question.k - 1,
        "budget": round(site * page_question.budget),
        "n": max(1, round(site / page_question.k)),
    }
    return {
        name: (words.format(f"{numbers[name]:,}") if site or name == "k" else "", words)
        for name, words in WORDS.items()
    }


def more_users(one: Withheld, observed: int) -> str:
    """Say whether more users might allow an API."""
    if not one.is_undecided:
        if one.upper is None:
            return "Unknown: there is no evidence yet."
        return "No: it is above the budget."
    possible, needed = one.users_possible, one.users_needed
    ceiling = ""
    if possible is not None:
        ceiling = f" No test can tell with fewer than about {possible:,}."
        if possible <= observed:
            ceiling = " A sharper test could tell now."
    if needed is None:
        return f"Nobody can tell how many.{ceiling}"
    return f"About {needed:,}, {significant(needed / observed)} times as many.{ceiling}"
