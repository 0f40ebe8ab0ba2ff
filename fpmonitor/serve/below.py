"""The process that has the database: it answers the one above, and ends with it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.routing import Route

from fpmonitor.errors import FpmonitorError
from fpmonitor.serve.asked import ForwardedRequest, respond
from fpmonitor.serve.asking import MOST_BYTES, framed, next_frame
from fpmonitor.serve.config import ServeConfig
from fpmonitor.serve.dashboard import Dashboard
from fpmonitor.serve.frames import write_all
from fpmonitor.serve.programs import Programs
from fpmonitor.serve.questions import Questions


def asked_app(questions: Questions) -> Starlette:
    """Return what answers readers who were let in; their name is `reader` of the scope."""
    handlers = Programs(questions).handlers | Dashboard(questions).handlers
    return Starlette(routes=[Route(path, handler) for path, handler in handlers.items()])


async def _serve_above(source: int, target: int) -> None:
    """Answer what comes from the process above until that ends."""
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader(limit=MOST_BYTES)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(source, "rb")
    )
    config, key_file = msgspec.json.decode(
        await next_frame(stream),
        type=tuple[ServeConfig, Path | None],
        dec_hook=lambda _, name: Path(name),
    )
    questions = Questions(config, key_file=key_file)
    app = asked_app(questions)
    methods: dict[str, Callable[[Any], Awaitable[Any]]] = {
        "respond": lambda question: respond(app, msgspec.convert(question, ForwardedRequest)),
        "move": lambda segment: questions.move(Path(segment)),
        "look": lambda _: questions.look(),
        "names": lambda _: questions.names(),
    }
    # A pipe takes a long frame in parts, between which another one must not get.
    writing = asyncio.Lock()

    async def answer(raw: bytes) -> None:
        number, method, argument = msgspec.msgpack.decode(raw)
        try:
            outcome = msgspec.msgpack.encode((True, await methods[method](argument)))
        except FpmonitorError as error:
            outcome = msgspec.msgpack.encode((False, error.message))
        except Exception as error:  # noqa: BLE001 -- told above; messages may hold values
            outcome = msgspec.msgpack.encode((False, type(error).__name__))
        async with writing:
            message = framed(msgspec.msgpack.encode((number, outcome)))
            # In a thread: while the pipe is full, other questions go on.
            await loop.run_in_executor(None, write_all, target, message)

    # The loop itself holds tasks weakly: without this one might vanish before its answer.
    under_way = set()
    while True:
        task = asyncio.create_task(answer(await next_frame(stream)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)


def serve_below() -> None:
    """Run the process below; it ends with the one above, whatever it does."""
    for one in (signal.SIGINT, signal.SIGTERM):  # the process above says when
        signal.signal(one, signal.SIG_IGN)
    source, target = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    with suppress(asyncio.IncompleteReadError, BrokenPipeError):
        asyncio.run(_until_end(source, target))


async def _until_end(source: int, target: int) -> None:
    try:
        await _serve_above(source, target)
    finally:
        os._exit(0)  # as after a kill: questions that nobody waits for are left


if __name__ == "__main__":
    serve_below()
