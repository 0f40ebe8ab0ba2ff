"""Calls that others may keep from ever ending."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def begun(call: Callable[[], T]) -> Future[T]:
    """Begin a call in a thread of its own, which does not keep the process from ending.

    Whoever waits for the result says for how long. The time limit of a socket is none: it begins
    anew with each byte, and names are looked up without one.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 -- raised again where the result is asked for
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome
