"""Questions that were registered before the first user was stored, and questions asked since.

A question and its answer are values that stand for JSON.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fpmonitor.errors import StoreError
from fpmonitor.store.database import utc_now

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from fpmonitor.store.database import Database


def add_asked(database: Database, question: Any, answer: Any) -> None:
    """Add a question that was answered, and a summary of the answer."""
    _add(database, _text(question), _text(answer))


def register(database: Database, questions: Iterable[Any]) -> None:
    """Register questions, all or none; one that is registered already adds nothing.

    Raises:
        StoreError: A question is new, but users have been stored.
    """
    with database.transaction():
        known = {
            _text(question) for _, question, answer in stored_questions(database) if not answer
        }
        fresh = dict.fromkeys(text for text in map(_text, questions) if text not in known)
        if fresh and database.rows("questions/stored_batches")[0][0]:
            raise StoreError(
                f"{database.path} has had users stored: a question is registered before the first",
                hint="nothing was changed; decide without --register, or register the question in "
                "a new database",
            )
        for text in fresh:
            _add(database, text, None)


def stored_questions(database: Database) -> list[tuple[datetime, Any, Any]]:
    """List times (UTC without a zone), questions, and answers: null for a registered question."""
    return [
        (asked_at, json.loads(question), answer and json.loads(answer))
        for asked_at, question, answer in database.rows("questions/list")
    ]


def _add(database: Database, question: str, answer: str | None) -> None:
    database.run("questions/add", asked_at=utc_now(), question=question, answer=answer)


def _text(content: Any) -> str:
    # In one order: a registered question is known again by its text.
    return json.dumps(content, sort_keys=True, ensure_ascii=False)
