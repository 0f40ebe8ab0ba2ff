"""The store of a role: a SQLite file with the study, its requests, messages and refusals.

Every change is a transaction that is on disk on return. One process writes to a store.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import (
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from fpmonitor.closing import Closing
from fpmonitor.errors import InputError, StoreError
from fpmonitor.private.study import CollectionRequest, Role, Study, check_ask
from fpmonitor.safe_files import whole_file
from fpmonitor.sql import statement

Outcome = Literal[
    "accepted",
    "held",
    "passed on",
    # and the reasons of refusals:
    "unreadable",
    "unknown ask",
    "closed ask",
    "wrong length",
    "unknown key",
    "does not open",
    "replayed",
    "unknown set",
    "wrong tokens",
    "taken before",
    "below the minimum",
    "above the population",
]
NO_ASK = b""
# What the file has room for, added up many times.
_Messages = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_sql = cache(statement)

_RECIPIENT = ("private/create_received", "private/create_nonces", "private/create_counts")
_SCHEMA: dict[Role, tuple[str, ...]] = {
    "shuffler": ("private/create_taken", "private/create_held", "private/create_unsent"),
    "curator": _RECIPIENT,
    "analyst": _RECIPIENT,
}
# The role of a store, as SQLite's `user_version`; 0 is that of a new file.
_ROLES: tuple[Role | None, ...] = (None, *_SCHEMA)
_COMMON = ("private/create_study", "private/create_asks", "private/create_tally")
_BUSY_SECONDS = 20.0
_PRAGMAS = (
    "page_size = 8192",  # fits several messages of the usual length
    "journal_mode = WAL",
    # A receipt says that messages are on disk; in this mode NORMAL would lose them with the power.
    "synchronous = FULL",
    # Messages that were passed on must not be read off the free pages of the file.
    "secure_delete = ON",
    # Messages go to random pages: the longer the log, the more share a page.
    "wal_autocheckpoint = 8000",
    "cache_size = -64000",
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of messages."""

    accepted: int  # Number of messages that count; they are on disk.
    # Number of messages that do not count, by reason.
    refused: Mapping[Outcome, int] = field(default_factory=dict)

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """Number of messages by outcome."""
        return {"accepted": self.accepted, **self.refused}

    @classmethod
    def of(cls, outcomes: Mapping[Outcome, int]) -> Receipt:
        """Return the receipt of counted outcomes."""
        refused = dict(outcomes)
        return cls(refused.pop("accepted", 0), refused)


class ConflictError(InputError):
    """What is asked does not fit the state of a request; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAsk:
    """A request that a role takes answers to."""

    id: str  # In hexadecimal.
    new: bool  # Whether the role did not know it before.


@dataclass(frozen=True, slots=True)
class ClosedAsk:
    """What became of the messages of a request that the shuffler closed."""

    passed_on: _Messages  # Number of messages that left for the recipient, in all.
    dropped: _Messages  # Number of messages that were deleted, as they were below the minimum.


class RoleStore(Closing):
    """An open store; methods raise `StoreError` where the file cannot be read or written.

    Args:
        path: The file; created, readable by its owner only, if it does not exist.
        study: The terms; a store belongs to one study.
        role: Whose store it is.

    Raises:
        InputError: The store belongs to another study or role.
        StoreError: It cannot be opened, or is not a store.
    """

    def __init__(self, path: Path, study: Study, role: Role) -> None:
        self.path = path
        self.study = study
        self._lock = threading.RLock()
        self._seen_version = 0
        self._connection = _opened(path)
        try:
            with self.transaction():
                self._keep_role(role)
                for name in (*_COMMON, *_SCHEMA[role]):
                    self.run(name)
                self._keep_study()
            self.refresh()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all of it to disk, or nothing."""
        with self._lock:
            try:
                # Waits for the lock now; a reader that becomes a writer would fail as busy at once.
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise StoreError(f"{self.path}: cannot be written ({error})") from error

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: cannot be read ({error})") from error

    def run(self, name: str, **values: Any) -> int:
        """Run a statement; return the number of changed rows."""
        return self._connection.execute(_sql(name), values).rowcount

    def run_many(self, name: str, values: Iterable[Mapping[str, Any]]) -> int:
        """Run a statement for each of the values; return the number of changed rows."""
        return self._connection.executemany(_sql(name), values).rowcount

    def values(self, name: str, wanted: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Return one cell for each of the values; call it in a transaction."""
        execute, sql = self._connection.execute, _sql(name)
        return [execute(sql, one).fetchone()[0] for one in wanted]

    def rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._reading():
            return self._connection.execute(_sql(name), values).fetchall()

    def used_bytes(self) -> int:
        """Return the used size of the file, bytes."""
        with self._reading():
            pages, free, size = (
                self._connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * size)

    def wipe_log(self) -> None:
        """Empty the write-ahead log, which holds deleted messages until then."""
        with self._lock, suppress(sqlite3.OperationalError):  # busy reading: next time
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # ---- Requests

    @property
    def asks(self) -> Mapping[bytes, CollectionRequest]:
        """Known requests by id."""
        return self._asks

    def is_closed(self, ask_id: bytes) -> bool:
        """Whether answers to a request are no longer taken."""
        return ask_id in self._closed

    def add_ask(self, ask: CollectionRequest) -> None:
        """Take answers to a request from now on; adding it again changes nothing.

        Raises:
            InputError: It violates the terms of the study, or its round has another request
                already.
        """
        with self.transaction():
            self.refresh()
            if ask.id in self._asks:
                return
            check_ask(self.study, ask, self._asks.values())
            place = (ask.epoch, ask.round)
            if place in {(other.epoch, other.round) for other in self._asks.values()}:
                raise InputError(
                    f"ask: round {ask.round} of epoch {ask.epoch} has another request already",
                    hint="`ldp ask --epoch N` begins a new epoch, `select --round N` a further "
                    "round",
                )
            self.run("private/add_ask", id=ask.id, content=ask.to_bytes(), added=time.time())
        self.load_asks()

    def check_open(self, ask_id: bytes) -> None:
        """Refuse a known request that was closed: what is closed is never opened again.

        Raises:
            ConflictError: It is closed; the message says what became of it.
        """
        if ask_id in self._closed:
            raise ConflictError(
                f"{self._asks[ask_id].words} is closed, with {self.tally()[ask_id]['passed on']:,} "
                "messages passed on",
                hint="ask again in a new epoch, or with another --round",
            )

    def load_asks(self) -> None:
        """Read the requests of the file, after they were changed."""
        rows = self.rows("private/asks")
        self._asks = {ask_id: CollectionRequest.from_bytes(content) for ask_id, content, _ in rows}
        self._closed = {ask_id for ask_id, _, closed in rows if closed}

    def refresh(self) -> None:
        """Read the requests again if another process has changed the file."""
        with self._reading():
            # Parsing them for each group of uploads would take longer than storing these.
            [(version,)] = self._connection.execute("PRAGMA data_version")
            if version != self._seen_version:
                self._seen_version = version
                self.load_asks()

    def added(self) -> dict[bytes, float]:
        """Return when each request was added, in seconds since 1970."""
        return dict(self.rows("private/added"))

    # ---- Outcomes of messages

    def add_to_tally(self, ask_id: bytes, outcomes: Mapping[Outcome, int]) -> None:
        """Add to the number of messages by outcome; call it in a transaction."""
        for outcome, messages in outcomes.items():
            if messages:
                self.run("private/add_to_tally", ask=ask_id, outcome=outcome, messages=messages)

    def tally(self) -> dict[bytes, Counter[Outcome]]:
        """Return the number of messages by request and outcome; `NO_ASK`: of unknown requests."""
        counts: dict[bytes, Counter[Outcome]] = {ask_id: Counter() for ask_id in self._asks}
        for ask_id, outcome, messages in self.rows("private/tally"):
            counts.setdefault(ask_id, Counter())[outcome] = messages
        return counts

    def _keep_role(self, role: Role) -> None:
        [(number,)] = self._connection.execute("PRAGMA user_version")
        if not 0 <= number < len(_ROLES):
            raise StoreError(f"{self.path}: not the store of a role")
        if number and _ROLES[number] != role:
            raise InputError(f"{self.path}: the store of the {_ROLES[number]}, not of the {role}")
        self._connection.execute(f"PRAGMA user_version = {_ROLES.index(role)}")

    def backup(self, path: Path) -> None:
        """Write a whole copy of the store to a new file, also while a service uses the store."""
        if path.exists():
            raise StoreError(f"{path}: cannot be written (it exists)")
        try:
            # SQLite would make it readable by all, and takes an empty file; and after a kill the
            # part of a copy would have its name.
            with whole_file(path, 0o600) as scratch, self._lock:
                self._connection.execute("VACUUM INTO ?", (str(scratch),))
        except sqlite3.Error as error:
            raise StoreError(f"{path}: cannot be written ({error})") from error

    def _keep_study(self) -> None:
        stored_study = self.rows("private/study")
        if not stored_study:
            self.run("private/add_study", content=self.study.to_bytes())
        elif stored_study[0][0] != self.study.to_bytes():
            raise InputError(f"{self.path}: the store belongs to another study")


def read_counts(
    store: RoleStore, ask: CollectionRequest
) -> dict[tuple[str, ...], dict[tuple[str, ...], int]]:
    """Return the number of users by tokens, for each set of a request."""
    counts: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {one: {} for one in ask.sets}
    for set_index, tokens, users in store.rows("private/counts", ask=ask.id):
        counts[ask.sets[set_index]][tuple(json.loads(tokens))] = users
    return counts


def incomplete(store: RoleStore, asks: Iterable[CollectionRequest]) -> list[str]:
    """Return what is missing of the answers that a recipient counts, in words.

    Complete answers are equally many for all sets of a request.
    """
    missing = []
    for ask in asks:
        tally = store.tally()[ask.id]
        # What was passed on leaves the tally first: the total is then of what arrived.
        late = tally.pop("passed on", 0) - tally.total() + tally["taken before"]
        users = Counter(dict(store.rows("private/answers", ask=ask.id)))
        numbers = [users[number] for number in range(len(ask.sets))]
        fewest, most = min(numbers), max(numbers)
        if late > 0:
            missing.append(f"{late:,} messages of round {ask.round} are under way")
        elif fewest < most:
            missing.append(f"{fewest:,} to {most:,} answers on a set in round {ask.round}")
    return missing


def _opened(path: Path) -> sqlite3.Connection:
    try:
        # SQLite would make it readable by all; its log takes the mode of this file.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path}: cannot be opened as a store ({error})") from error
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"{path}: cannot be opened as a store ({error})") from error
    return connection
