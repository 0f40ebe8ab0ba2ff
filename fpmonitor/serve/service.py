"""The service: its keys, its spool and who may do what; its database is another's to open."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from fpmonitor.errors import BusyError, FpmonitorError, InputError
from fpmonitor.monitor import Monitor
from fpmonitor.serve.accounts import Accounts
from fpmonitor.serve.keys import KeyFile, key_of
from fpmonitor.serve.log import log
from fpmonitor.serve.metrics import ServiceMetrics
from fpmonitor.serve.moving import names_of_keys
from fpmonitor.serve.spool import Spool

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.serve.asking import Apart, Here
    from fpmonitor.serve.config import ServeConfig
    from fpmonitor.serve.keys import Key

Status = Literal["ok", "waiting", "refused", "failing", "full"]
_LATE_SECONDS = 60.0


class Service:
    """What takes records.

    Args:
        store: Puts records into the database, and answers what concerns it.
        key_file: Holds the key of an encrypted database.

    Raises:
        InputError: An address that others can reach without keys, or a bad file of keys.
        StoreError: The database cannot be opened, though no other program has it; or another
            service has the spool.
    """

    def __init__(
        self, config: ServeConfig, store: Here | Apart, *, key_file: Path | None = None
    ) -> None:
        self.config, self.store = config, store
        self._keys = KeyFile(config.keys_file)
        kinds = {key.kind for key in self._keys.now}
        if not config.is_local and kinds != {"write", "read"}:
            raise InputError(
                f"host {config.host}: others could reach the service, and it has not both a write "
                "key and a read token",
                hint="make them with `fpmonitor collect keys add write NAME` and `... read NAME`",
            )
        names: dict[str, set[str]] | None = None
        # What is no database is said at once; for one that is in use records wait in the spool.
        with (
            suppress(BusyError),
            Monitor(config.db, create=True, key_file=key_file) as monitor,
        ):
            names = names_of_keys(monitor)
        self.tasks: list[asyncio.Task[None]] = []
        self._is_stalled = False
        self._late = self._next_late()
        self._moving = asyncio.Lock()
        self._changes = -1
        self.spool = Spool(config.spool_folder)
        self.accounts = Accounts(config, self.spool, self._keys)
        if names is not None:
            self.accounts.learn_names(names)
        self.metrics = ServiceMetrics()

    # ---- Who may do what

    @property
    def wants_read_token(self) -> bool:
        """Whether a read token is configured, or was when the service began."""
        return self._keys.had("read")

    def reader_of(self, token: str) -> Key | None:
        """Key of whoever has a read token, compared in constant time; null for no such token."""
        return key_of(self._keys.now, "read", token)

    def is_reader(self, key: Key) -> bool:
        """Whether a key still counts: one of the same name that came after it is another."""
        return key in self._keys.now

    def source_of(self, secret: str) -> str | None:
        """Source of the records of a write key; `local` where no key is configured."""
        key = key_of(self._keys.now, "write", secret)
        if key is None and not self._keys.had("write"):
            return "local" if self.config.is_local else None
        return key.name if key else None

    # ---- How it is

    @property
    def status(self) -> Status:
        """What keeps records from being taken, or taken ones from the database; else `ok`."""
        if self.accounts.is_all_full:
            return "full"
        if self.spool.is_failing or any(task.done() for task in self.tasks):
            return "failing"
        if self._is_stalled or (self.spool.waiting_bytes and time.monotonic() > self._late):
            return "waiting"
        return "refused" if self.spool.refused_bytes else "ok"

    # ---- From the spool to the database

    async def move_for_ever(self) -> None:
        """Store what waits, again and again, until cancelled."""
        while True:
            await asyncio.sleep(self.config.flush_seconds)
            await self.move()

    async def move(self) -> None:
        """Store what waits; what cannot be stored now stays in the spool, and the status tells."""
        had = self.spool.waiting_bytes
        try:
            async with self._moving:
                await self._move()
            self._is_stalled = False
        except Exception as error:  # noqa: BLE001 -- tried again
            self._is_stalled = True
            self.metrics.postponed.inc()
            name = type(error).__name__
            log("postponed", reason=error.message if isinstance(error, FpmonitorError) else name)
        self._late = self._next_late()
        # Where nothing waited there was no batch: what has come since would tell of one sender.
        waiting = self.spool.waiting_bytes if had or self._is_stalled else 0
        self.metrics.note_backlog(waiting, self.spool.refused_bytes)

    def _next_late(self) -> float:
        return time.monotonic() + 2 * self.config.flush_seconds + _LATE_SECONDS

    async def _move(self) -> None:
        self.accounts.begin_batch()  # nothing is between the names and the queue that is written
        await self.spool.write_waiting()
        for segment in await self.spool.close_segments():
            moved = await self.store.move(segment)
            for part in moved:
                self.metrics.stored.add(part.kind, amount=part.stored)
                self.metrics.rejected.add(part.kind, amount=part.rejected + part.refused)
                log("stored", **asdict(part))
            await self.spool.forget(segment, rejected=any(part.rejected for part in moved))
        changes = await self.store.look()
        if changes != self._changes:  # others may have forgotten what a key sent
            self.accounts.learn_names(await self.store.names())
            self._changes = changes
        await self.accounts.keep()
