"""The database of a service: questions to it, the decision that it serves, and what it takes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from fpmonitor.answers.decide import question_of
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.deciding import Tests, judging
from fpmonitor.decide.decision import ApiSet
from fpmonitor.decide.files import read_decision
from fpmonitor.disclosure import Audience, check_users
from fpmonitor.errors import (
    BusyError,
    FpmonitorError,
    InputError,
    UndecidableError,
    UnknownNameError,
)
from fpmonitor.monitor import Monitor
from fpmonitor.population.kept_spectra import KeptSpectra
from fpmonitor.population.memory import MemorySource
from fpmonitor.question import Question
from fpmonitor.release.stored import count_answers
from fpmonitor.serve.lists import CurrentLists, UsersOfNow
from fpmonitor.serve.log import log
from fpmonitor.serve.moving import Moved, move_segment, names_of_keys
from fpmonitor.serve.overview import DEFAULT_K
from fpmonitor.store.files import Patience, state_of_database
from fpmonitor.store.followed import Follower
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fpmonitor.decide.decision import Decision, Verdict
    from fpmonitor.population.exposure_index import ExposureIndex
    from fpmonitor.serve.config import ServeConfig

Answer = TypeVar("Answer")
_BUSY_SECONDS = 10.0
_STALE_SECONDS = 60.0
_WATCHED = 49  # sets asked for last, which are counted with each batch beside the recommended one


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Users in memory: of which state of the database, after how many changes of others, when."""

    state: object
    others: int
    at: float
    explorer: ExposureIndex


class NoCandidateError(UnknownNameError):
    """No log holds a candidate of the decision, of users who are not too few to be told of."""

    def __init__(self, unknown: UnknownNameError, users: int) -> None:
        FpmonitorError.__init__(self, unknown.message, hint=unknown.hint)
        self.users = users


class Questions:
    """What answers from the database, and stores in it; only one of a service has it open.

    Args:
        config: The settings.
        key_file: Holds the key of an encrypted database.

    Raises:
        InputError: No such decision.
    """

    def __init__(
        self,
        config: ServeConfig,
        *,
        key_file: Path | None = None,
    ) -> None:
        self.config = config
        self._key_file = key_file
        self.decision: Decision | None = None  # as its file has it
        self.asked: Decision | None = None  # the same with its unions listed
        if config.decision is not None:
            self.decision = read_credible_decision(config.decision, read_decision)
            if config.source and self.decision.source not in {None, config.source}:
                raise InputError(
                    f"{config.decision} is about the source {self.decision.source}, and `source` "
                    f"is {config.source}",
                    hint="decide again with the source of the settings, or omit `source`",
                )
        self._kept, self._watched = KeptSpectra(), dict[ApiSet, None]()
        self.lists: CurrentLists | None = None
        if self.decision is not None:
            self.asked = self.decision.with_unions_listed()
            self.lists = CurrentLists(self.decision, lambda reason: log("lists", reason=reason))
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._judge: tuple[tuple[int, bool], Tests] | None = None  # and of which users
        self._asked_at = -math.inf
        self._reading: asyncio.Task[_Held] | None = None
        self._seen = self._state()
        self._is_held, self._others = False, 0
        self._follower = Follower()

    @property
    def limits_counts(self) -> bool:
        """Whether a reader may have so many exact counts."""
        return self.config.query_limit is not None

    @property
    def history_path(self) -> Path:
        """Where readings of the recommended set are kept."""
        return self.config.spool_folder / "history.jsonl"

    async def ask(self, question: Callable[[Monitor], Answer]) -> Answer:
        """Put a question to the monitor, off the event loop."""
        return await asyncio.to_thread(self.ask_now, question)

    def ask_now(self, question: Callable[[Monitor], Answer]) -> Answer:
        """Put a question to the monitor; the database is open only meanwhile."""
        with self._lock:
            try:
                with self._opened() as monitor:
                    # Once it is open: nobody else can change it between this look and the question.
                    others = self.changes_of_others()
                    if others != self._others:
                        self._others, self._follower = others, Follower()
                    self._is_held, monitor.follower = True, self._follower
                    return question(monitor)
            finally:
                # After it is closed, which writes the file once more.
                if self._is_held:
                    self._seen, self._is_held = self._state(), False

    def changes_of_others(self) -> int:
        """Count how often other programs were seen to change the database.

        What was read before such a change may hold users who were forgotten by it.
        """
        return self._others + (not self._is_held and self._seen != self._state())

    async def refusal_of_count(self, reader: str, name: str) -> str:
        """Count the answer of this name for its reader; say why not, where it is one too many."""
        limit = self.config.query_limit
        if limit is None:
            return ""
        verdict, answered, most = await self.ask(
            lambda monitor: count_answers(
                monitor.database, monitor.population(), reader, [name], limit=limit
            )
        )
        return f"{answered} of {most} exact counts were answered" if verdict == "refuse" else ""

    def _opened(self) -> Monitor:
        return Monitor(
            self.config.db,
            window=Window(source=self.config.source),
            audience=Audience.OTHERS,
            key_file=self._key_file,
            patience=Patience(_BUSY_SECONDS),
        )

    async def explorer(self, *, of_now: bool = False) -> ExposureIndex:
        """Hold the users in memory for the question of the decision, or k = 10.

        After new ones have arrived, the users read before answer while all are read again in the
        background: for a minute at most, and never with `of_now`, nor once another program has
        changed the database.
        """
        others, state, cached = self.changes_of_others(), self._state(), self._held
        self._asked_at = time.monotonic()
        if cached is not None and cached.state == state:
            return cached.explorer
        reading = self._begin_reading(state, others)
        if (
            of_now
            or cached is None
            or cached.others != others
            or time.monotonic() > cached.at + _STALE_SECONDS
        ):
            cached = await asyncio.shield(reading)
        return cached.explorer

    def _begin_reading(self, state: object, others: int) -> asyncio.Task[_Held]:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(state, others))
            self._reading.add_done_callback(_log_failure)
        return self._reading

    async def answer_gate(self, apis: Sequence[str]) -> dict[str, Any]:
        """Answer the gate; from the users in memory what the decision file does not settle."""
        decision = self.asked
        if decision is None:
            return {}
        wanted = sorted(decision.named(apis))
        try:
            explorer = await self.explorer()
        except (UndecidableError, NoCandidateError) as error:
            if isinstance(error, UndecidableError) or decision.rests_on_file:
                return decision.answer(wanted) | {"users": decision.users}
            answer = decision.answer_of_now(wanted, lambda _: "unknown", users=error.users)
            if answer["verdict"] == "unknown":
                reason = f"{error.users:,} users, and no log holds any of the candidates"
                return answer | {"reason": reason, "users": error.users}
            return answer | {"users": decision.users}
        return await self.judged(wanted, explorer)

    async def judged(self, apis: Sequence[str], explorer: ExposureIndex) -> dict[str, Any]:
        """Answer as the gate does on the users of an explorer; nothing without a decision.

        Sets are judged by what others are told of their spectra. Where exact counts are limited,
        these are sets of the list alone; and where the users of the decision were looked at once,
        for good, or cohorts have budgets, its file answers.
        """
        decision = self.asked
        if decision is None:
            return {}
        is_same = explorer.seal == decision.digest
        if decision.rests_on_file and not is_same:
            return decision.answer(apis) | {"users": decision.users}
        wanted = decision.named(apis)
        if not (is_same or self.limits_counts):
            self._watch(explorer.named(wanted))

        def judge(members: ApiSet) -> Verdict:
            named = explorer.named(members)
            interval = explorer.sample.disclosed(named)
            return self._judge_of(decision, explorer).verdict(named, interval.most, interval.least)

        def answer() -> dict[str, Any]:
            # Nobody reads visits here: no user of now allows what one visit left open.
            is_open = decision.verdict(wanted)[0] != "allow"
            of_list = self.limits_counts or (decision.policy.visits == "last+visit" and is_open)
            if is_same:
                settled = of_list or decision.rests_on_file
                return decision.answer(wanted, None if settled else judge)
            return decision.answer_of_now(wanted, judge, users=explorer.users, only_listed=of_list)

        return await asyncio.to_thread(answer) | {"users": explorer.users}

    def _judge_of(self, decision: Decision, explorer: ExposureIndex) -> Tests:
        # Looked at once: other threads change both.
        users, same, cached = explorer.users, explorer.seal == decision.digest, self._judge
        if cached is None or cached[0] != (users, same):
            current = (decision if same else decision.at_later_look()).by_last_values
            cached = self._judge = (users, same), judging(current, users)
        return cached[1]

    def _watch(self, apis: ApiSet) -> None:
        """Count a set anew with each batch from now on, in place of that asked for longest ago."""
        self._watched.pop(apis, None)
        self._watched[apis] = None
        while len(self._watched) > _WATCHED:
            del self._watched[next(iter(self._watched))]

    async def _read(self, state: object, others: int) -> _Held:
        at = time.monotonic()
        explorer = await self.ask(self._make_explorer)
        users_of_now = self._held = _Held(state, others, at, explorer)
        source, seal = explorer.sample.source, explorer.seal
        if self.lists is None:
            return users_of_now
        if self.limits_counts or not isinstance(source, MemorySource):
            self.lists.see(seal, at)
        else:
            columns = self._kept.columns  # of these users, as nobody else reads meanwhile
            users = UsersOfNow(source=source, columns=columns, seal=seal, read=at)
            self.lists.follow(users)
        return users_of_now

    async def stop_reading(self) -> None:
        """Read users and search lists no more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self.lists is not None:
            await self.lists.stop()

    async def listed(self) -> dict[str, Any]:
        """Return the decision with the newest lists, and `state`; nothing without a decision.

        At once: users who have come in are read in the background.
        """
        if self.lists is None:
            return {}
        others, cached, is_read = self.changes_of_others(), self._held, self._is_read
        self._asked_at = time.monotonic()
        if not is_read:
            self._begin_reading(self._state(), others)
        users = None if cached is None or cached.others != others else cached.explorer.users
        told_state = self.lists.state(users, is_read=is_read)
        content_of_lists = self.lists.decision.to_json()
        if self.lists.decision is not self.decision:
            # The digest of the data would tell others of a change of fewer than k users.
            content = json.dumps(
                content_of_lists
                | {"data": {"users": content_of_lists["data"]["users"]}, "seconds": 0}
            )
            content_of_lists["data"]["digest"] = hashlib.sha256(content.encode()).hexdigest()
        return content_of_lists | {"state": told_state}

    @property
    def words_of_lists(self) -> str | None:
        """Of which users the lists of the decision are; null without a decision."""
        return None if self.lists is None else self.lists.words(is_read=self._is_read)

    @property
    def _is_read(self) -> bool:
        """Whether users were read, and nothing came in since."""
        return self._held is not None and self._held.state == self._state()

    def _state(self) -> object:
        return state_of_database(self.config.db)

    def _make_explorer(self, monitor: Monitor) -> ExposureIndex:
        decision = self.asked
        if decision is None:
            users = monitor.population()
            return users.index(Question(DEFAULT_K), users.publishable_apis(DEFAULT_K))
        users = monitor.population_as(decision)
        check_users(users.users, decision.policy.k)
        try:
            explorer = users.index(
                question_of(decision),
                decision.policy.candidates,
                kept_spectra=self._kept,
                sets=[decision.recommended, *self._watched],
            )
        except UnknownNameError as error:  # of candidates, single ones count as absent
            raise NoCandidateError(error, users.users) from error
        is_judged = not (self.limits_counts or decision.rests_on_file)
        if is_judged and explorer.seal != decision.digest:
            self._judge_of(decision, explorer)
        return explorer

    # ---- From the spool to the database

    async def move(self, segment: Path) -> list[Moved]:
        """Store a segment of the spool."""
        spool = self.config.spool_folder
        return await self.ask(partial(move_segment, segment=segment, spool=spool))

    async def look(self) -> int:
        """Read what is asked for and has changed; count the changes of other programs."""
        cached, state = self._held, self._state()
        is_asked = time.monotonic() < self._asked_at + _STALE_SECONDS
        if cached is not None and cached.state != state and is_asked:
            self._begin_reading(state, self.changes_of_others())
        if self._seen != self._state():  # others have changed the file, or put another there
            with suppress(BusyError):
                await self.ask(lambda _: None)
        return self._others

    async def names(self) -> dict[str, set[str]]:
        """Names of APIs that the database has by each key; errors as of `ask_now`."""
        return await self.ask(names_of_keys)


def _log_failure(reading: asyncio.Task[_Held]) -> None:
    error = None if reading.cancelled() else reading.exception()
    if error is not None:
        log("not read", reason=type(error).__name__)
