"""The list of questions of a database: registered before its first user, and asked since."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fpmonitor.answers.decide import asked_question, decide_sets
from fpmonitor.decide.effort import INTERRUPTS
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.questions import (
    AnswerSummary,
    AskedQuestion,
    ListedQuestion,
    questions_before,
)
from fpmonitor.errors import StoreError
from fpmonitor.safe_files import typed, untyped
from fpmonitor.store import questions as store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fpmonitor.decide.asked import DecideQuestion
    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.population import Population
    from fpmonitor.store.database import Database


def register_questions(database: Database, questions: Iterable[AskedQuestion]) -> None:
    """Register questions before the first user is stored, all or none.

    They have half of delta, evenly, at every look; see `decide.questions.level_of`. A question that
    is registered already adds nothing.
    """
    store.register(database, map(untyped, questions))


def list_questions(database: Database | None) -> list[ListedQuestion]:
    """List the registered questions, then those that were decided, each in the order of asking.

    None where no database holds the users.
    """
    if database is None:
        return []
    return [
        ListedQuestion(
            asked_at=asked_at,
            question=typed(question, AskedQuestion, "a question"),
            answer=answer and typed(answer, AnswerSummary, "an answer"),
        )
        for asked_at, question, answer in store.stored_questions(database)
    ]


def decide_and_list(
    database: Database | None,
    population: Population,
    decide_question: DecideQuestion,
    *,
    counter: str = "duckdb",
    note: Callable[[str], None] = lambda _text: None,
) -> Decision:
    """Decide as `decide_sets` does, and list the question.

    Args:
        database: Of the population; null for users that no database holds, whose questions are not
            listed. Nor are those about levels.
        note: Told why a question could not be listed; the decision is as good without.
    """
    if database is None or decide_question.components:
        return decide_sets(population, decide_question, counter=counter)
    listed = list_questions(database)
    # Read before the decision: what is asked now is not among what was asked before.
    registered = [each.question for each in listed if each.answer is None]
    decision = decide_sets(population, decide_question, registered=registered, counter=counter)
    question = asked_question(population, decision)
    # A registered question has a level of its own, whatever else was asked.
    if decision.policy.delta is not None and not decision.registered:
        before = questions_before(question, listed, fixed=decision.universe is None) or 0
        decision = replace(decision, asked_before=before)
        decision = replace(decision, guarantee=guarantee(decision))
    try:
        # An interrupt must leave no decision that was answered and is not listed.
        with INTERRUPTS.held():
            store.add_asked(database, untyped(question), untyped(AnswerSummary.of(decision)))
    except StoreError as error:
        note(f"the question is not listed: {error}")
    return decision
