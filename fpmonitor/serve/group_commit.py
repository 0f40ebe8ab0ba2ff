"""What waits together is written together, and answered when it is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Receipt = TypeVar("_Receipt")


@dataclass(slots=True, eq=False)
class _Waiting(Generic[_Item, _Receipt]):
    item: _Item
    done: asyncio.Future[_Receipt]


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
        self._waiting: list[_Waiting[_Item, _Receipt]] = []
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()

    async def put(self, item: _Item) -> _Receipt:
        """Write an item; returns its receipt when it is written, raises what its write raised."""
        waiting: _Waiting[_Item, _Receipt] = _Waiting(
            item, asyncio.get_running_loop().create_future()
        )
        self._waiting.append(waiting)
        self._wake.set()
        return await waiting.done

    async def run(self) -> None:
        """Write what waits, in groups, until cancelled."""
        while True:
            await self._wake.wait()
            await self.write_waiting()

    async def write_waiting(self) -> None:
        """Write all that waits now, and answer it."""
        async with self._lock:
            # Before the first group: what comes during a write wakes the next round.
            self._wake.clear()
            while self._waiting:
                group = self._next_group()
                try:
                    receipts = await self._write([one.item for one in group])
                except Exception as error:  # noqa: BLE001 -- raised again by those who wait
                    for one in group:
                        # Whoever waited may be gone: the future of a cancelled request is done.
                        if not one.done.done():
                            one.done.set_exception(error)
                else:
                    for one, receipt in zip(group, receipts, strict=True):
                        if not one.done.done():
                            one.done.set_result(receipt)

    def _next_group(self) -> list[_Waiting[_Item, _Receipt]]:
        group, size = [], 0
        while self._waiting and size < self._most_bytes:
            group.append(self._waiting.pop(0))
            size += self._size(group[-1].item)
        return group
