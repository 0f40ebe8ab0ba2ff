"""What waits together is written together, and answered when it is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Receipt = TypeVar("_Receipt")


class GroupCommit(Generic[_Item, _Receipt]):
    """A queue whose items share one write.

    `write` returns a receipt for each item of a group; `size` is that of an item, bytes. A group
    takes no further item above `most_bytes`.
    """

    def __init__(
        self,
        write: Callable[[list[_Item]], Awaitable[Sequence[_Receipt]]],
        *,
        size: Callable[[_Item], int],
        most_bytes: int,
    ) -> None:
        self._write = write
        self._size = size
        self._most_bytes = most_bytes
        self._waiting: list[tuple[_Item, asyncio.Future[_Receipt]]] = []
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()

    async def put(self, item: _Item) -> _Receipt:
        """Write an item; returns its receipt when it is written, raises what its write raised."""
        done: asyncio.Future[_Receipt] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        self._wake.set()
        return await done

    async def run(self) -> None:
        """Write what waits, in groups, until cancelled."""
        while True:
            await self._wake.wait()
            await self.write_waiting()

    async def write_waiting(self) -> None:
        """Write all that waits now, and answer it."""
        # `run` and whoever closes a segment both write: groups must not get mixed up.
        async with self._lock:
            # Before the first group: what comes during a write wakes the next round.
            self._wake.clear()
            while self._waiting:
                items, futures = self._next_group()
                try:
                    receipts = await self._write(items)
                except Exception as error:  # noqa: BLE001 -- raised again by those who wait
                    for done in futures:
                        # Whoever waited may be gone: the future of a cancelled request is done.
                        if not done.done():
                            done.set_exception(error)
                else:
                    for done, receipt in zip(futures, receipts, strict=True):
                        if not done.done():
                            done.set_result(receipt)

    def _next_group(self) -> tuple[list[_Item], list[asyncio.Future[_Receipt]]]:
        items, futures, size = [], [], 0
        while self._waiting and size < self._most_bytes:
            item, done = self._waiting.pop(0)
            items.append(item)
            futures.append(done)
            size += self._size(item)
        return items, futures
