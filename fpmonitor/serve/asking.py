"""Questions in a process of their own: readers take no time from those who send.

The process that listens keeps the keys, the spool and the connections. The one below it has the
database: it stores segments and answers readers, each in turn. They talk in frames over pipes;
where the process ends, by whatever it was asked, the next question starts another.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec

from fpmonitor.errors import StoreError
from fpmonitor.serve.asked import ForwardedAnswer, ForwardedRequest, respond
from fpmonitor.serve.moving import Moved

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import ASGIApp

    from fpmonitor.serve.config import ServeConfig
    from fpmonitor.serve.questions import Questions

_SIZE = struct.Struct("<I")
MOST_BYTES = 1 << 26  # that wait in a pipe
# Of the process below: who sends comes first, also while it starts. It keeps a tenth of a busy
# processor, or what waits would never be stored.
_NICENESS = 10
_GRACE = 10.0  # seconds to end, once nobody asks
_Kind = TypeVar("_Kind")


class Here:
    """Questions in this process."""

    def __init__(self, questions: Questions, app: ASGIApp) -> None:
        self._questions, self._app = questions, app
        self.move, self.look, self.names = questions.move, questions.look, questions.names

    async def respond(self, question: ForwardedRequest) -> ForwardedAnswer:
        """Answer a reader."""
        return await respond(self._app, question)

    async def close(self) -> None:
        """Ask nothing more."""
        await self._questions.stop_reading()


@dataclass(frozen=True, slots=True)
class _Below:
    """The process below, where its questions go, and who reads its answers."""

    process: asyncio.subprocess.Process
    questions: asyncio.StreamWriter
    reading: asyncio.Task[None]


class Apart:
    """Questions in a process below this one."""

    def __init__(self, config: ServeConfig, key_file: Path | None) -> None:
        self._start = msgspec.json.encode((config, key_file), enc_hook=str)
        self._below: _Below | None = None
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = itertools.count()
        self._starting = asyncio.Lock()

    async def respond(self, question: ForwardedRequest) -> ForwardedAnswer:
        """Answer a reader; errors as of `move`."""
        return await self._call("respond", question, ForwardedAnswer)

    async def move(self, segment: Path) -> list[Moved]:
        """Store a segment of the spool."""
        return await self._call("move", str(segment), list[Moved])

    async def look(self) -> int:
        """See what has changed; errors as of `move`."""
        return await self._call("look", None, int)

    async def names(self) -> dict[str, set[str]]:
        """Names of APIs that the database has by each key; errors as of `move`."""
        return await self._call("names", None, dict[str, set[str]])

    async def _call(self, method: str, argument: object, kind: type[_Kind]) -> _Kind:
        questions = await self._running()
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            questions.write(framed(msgspec.msgpack.encode((number, method, argument))))
            await questions.drain()
            raw = await waiting
        except ConnectionError as error:
            raise _ended() from error
        finally:
            self._waiting.pop(number, None)
        is_answer, content = msgspec.msgpack.decode(raw, type=tuple[bool, msgspec.Raw])
        if not is_answer:
            raise StoreError(msgspec.msgpack.decode(content, type=str))
        return msgspec.msgpack.decode(content, type=kind)

    async def _running(self) -> asyncio.StreamWriter:
        """Return where questions go, to a process that is there."""
        async with self._starting:
            if self._below is None or self._below.reading.done():
                process = await asyncio.create_subprocess_exec(
                    # -P: a module in the folder where the service was started is none of ours.
                    *(sys.executable, "-P", "-m", "fpmonitor.serve.below"),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=MOST_BYTES,
                )
                with suppress(ProcessLookupError):  # it has ended, as whoever asks is told
                    os.setpriority(os.PRIO_PROCESS, process.pid, os.nice(0) + _NICENESS)
                questions, answers = process.stdin, process.stdout
                if questions is None or answers is None:
                    raise _ended()
                questions.write(framed(self._start))
                reading = asyncio.create_task(self._read(process, answers))
                self._below = _Below(process, questions, reading)
            return self._below.questions

    async def _read(
        self, process: asyncio.subprocess.Process, answers: asyncio.StreamReader
    ) -> None:
        # Whatever ends the reading, nobody waits for an answer that nobody reads: neither those who
        # asked before nor those who ask while the process comes to its end.
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError):
                while True:
                    frame = msgspec.msgpack.decode(
                        await next_frame(answers), type=tuple[int, bytes]
                    )
                    waiting = self._waiting.get(frame[0])
                    if waiting is not None and not waiting.done():
                        waiting.set_result(frame[1])
        finally:
            await _ended_within(process, _GRACE)
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(_ended())

    async def close(self) -> None:
        """End the process; what it stores is stored whole or not at all."""
        if self._below is not None:
            self._below.questions.close()
            await _ended_within(self._below.process, _GRACE)
            await self._below.reading


async def _ended_within(process: asyncio.subprocess.Process, seconds: float) -> None:
    """Wait for the end of a process, and kill one that does not come to it."""
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _ended() -> StoreError:
    return StoreError("the process that has the database has ended")


def framed(content: bytes) -> bytes:
    """Return a message with its length before it."""
    return _SIZE.pack(len(content)) + content


async def next_frame(stream: asyncio.StreamReader) -> bytes:
    """Read a message; raises IncompleteReadError at the end."""
    (size,) = _SIZE.unpack(await stream.readexactly(_SIZE.size))
    return await stream.readexactly(size)
