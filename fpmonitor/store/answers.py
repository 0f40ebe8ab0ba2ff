"""Exact counts that readers have had answered, kept between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from fpmonitor.store.database import Database


def read_answered(database: Database, reader: str) -> set[str]:
    """Digests of the queries that a reader has had answered."""
    return {query for (query,) in database.rows("audit/answered", reader=reader)}


def add_answered(database: Database, reader: str, queries: Iterable[str], *, at: datetime) -> None:
    """Remember queries, by digests that are new for the reader; `at` is UTC without a zone."""
    database.run("audit/add_answered", reader=reader, queries=sorted(queries), answered_at=at)


def list_readers(database: Database) -> list[tuple[str, int, datetime]]:
    """List all readers by name: how many different counts each has had answered, the last when."""
    return [(reader, answered, last) for reader, answered, last in database.rows("audit/readers")]


def forget_reader(database: Database, reader: str) -> None:
    """Forget what a reader has had answered, for example when the users are others."""
    database.run("audit/forget_reader", reader=reader)
