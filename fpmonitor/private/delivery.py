"""Delivery of batches to their recipients, retried until acknowledged."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fpmonitor.errors import FpmonitorError
from fpmonitor.private.transport import RoleClient, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fpmonitor.private.shuffler import Shuffler
    from fpmonitor.private.study import RecipientRole

_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 15.0


class Delivery:
    """Sends the unsent batches of the shuffler, in a thread of its own.

    Batches for recipients without a service wait. `tell` is called with the reason when a batch
    cannot be sent.
    """

    def __init__(
        self,
        shuffler: Shuffler,
        recipients: Mapping[RecipientRole, RoleClient],
        tell: Callable[[str], None],
    ) -> None:
        self._shuffler = shuffler
        self._recipients = recipients
        self._tell = tell
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)

    def start(self) -> None:
        """Send waiting batches, and new ones from now on."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """Announce a new batch."""
        self._wake.set()

    def stop(self) -> None:
        """Stop after the current batch; the others wait in the store."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout=10)

    def send_all(self) -> bool:
        """Try each batch once; return whether all with an address were acknowledged."""
        done = True
        silent: set[RecipientRole] = set()
        for batch_id, ask_id in self._shuffler.unsent().items():
            name = self._shuffler.store.asks[ask_id].recipient
            if name not in self._recipients or name in silent or self._stopping:
                continue
            content = self._shuffler.batch(batch_id)
            if content is None:  # a command on the same store was faster
                continue
            try:
                self._recipients[name].post("/batches", content)
                # If this fails the batch is sent again; its recipient counts it once.
                self._shuffler.sent(batch_id)
            except FpmonitorError as error:
                self._tell(error.message)
                done = False
                # Each further batch would wait for the whole time limit.
                if isinstance(error, UnreachableError) and not error.answered:
                    silent.add(name)
        return done

    def _run(self) -> None:
        wait: float | None = None
        while True:
            woken = self._wake.wait(wait)
            if self._stopping:
                return
            # Before the sending: a batch that comes meanwhile wakes once more.
            self._wake.clear()
            try:
                done = self.send_all()
            except FpmonitorError as error:  # of the store: the thread must outlive it
                self._tell(error.message)
                done = False
            if done:
                wait = None
            # A new batch begins with the short wait again.
            elif wait is None or woken:
                wait = _FIRST_WAIT_SECONDS
            else:
                wait = min(_LONGEST_WAIT_SECONDS, 2 * wait)
