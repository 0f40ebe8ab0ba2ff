"""How long a search may go on, and what it tells meanwhile."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    _Handler = Callable[[int, FrameType | None], object]


class _Interrupts:
    """Interrupts (Ctrl-C, and SIGTERM where it is one) of what must come to its end.

    The first one is noted, and a second one passes.

    Attributes:
        noted: Whether one came in the block that holds them, also one that passed.
    """

    def __init__(self) -> None:
        self._held: dict[int, _Handler] = {}
        self._passing = self.noted = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold interrupts in the block, which goes on; none of them is left at its end."""
        # An interrupt while a finished search was written lost it, and one before left no word.
        # Signals come to the main thread alone, and Python lets no other set handlers.
        if self._held or not _gets_signals():
            yield
            return
        handlers = ((each, signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGTERM))
        # SIG_DFL and SIG_IGN are no functions: such a signal ends the process, or nothing.
        self._held = {number: handler for number, handler in handlers if callable(handler)}
        self._passing = self.noted = False
        try:
            for number in self._held:
                signal.signal(number, self._note)
            yield
        finally:
            for number, handler in self._held.items():
                signal.signal(number, handler)
            self._held, self.noted = {}, False

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Let interrupts pass in the block."""
        if not _gets_signals():
            yield
            return
        before, self._passing = self._passing, True
        try:
            yield
        finally:
            self._passing = before

    def _note(self, number: int, frame: FrameType | None) -> None:
        passes = self._passing or self.noted
        self.noted = True
        if passes:
            self._held[number](number, frame)


def _gets_signals() -> bool:
    return threading.current_thread() is threading.main_thread()


INTERRUPTS = _Interrupts()  # signals are of the process


class OutOfTimeError(Exception):
    """A search ran out of its time; `Effort.until_stopped` ends it."""


@dataclass(slots=True, kw_only=True)
class Effort:
    """What the searches of one decision share."""

    deadline: float = float("inf")  # Time of the monotonic clock, seconds, at which all end.
    progress: Callable[[str], None] | None = None  # Told now and then in words how far they are.
    # Whether they were ended early; whatever begins later ends at its first look.
    stopped: bool = field(default=False, init=False)

    @classmethod
    def of(cls, seconds: float | None, progress: Callable[[str], None] | None = None) -> Effort:
        """Begin now; null: without an end."""
        deadline = float("inf") if seconds is None else time.monotonic() + seconds
        return cls(deadline=deadline, progress=progress)

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return max(self.deadline - time.monotonic(), 0.0)

    def after(self, share: float) -> float:
        """Return when so large a share of the time that is left will have gone by."""
        now = time.monotonic()
        return now + share * (self.deadline - now)

    def part(self, share: float) -> Effort:
        """Begin what may take so large a share of the time that is left, and ends by itself."""
        return Effort(deadline=self.after(share), progress=self.progress)

    def check(self, message: str) -> None:
        """Tell how far a search is, and end it when it must end.

        Raises:
            OutOfTimeError: It must.
        """
        if self.progress is not None:
            self.progress(message)
        if self.stopped or time.monotonic() >= self.deadline:
            raise OutOfTimeError

    @contextmanager
    def until_stopped(self) -> Iterator[None]:
        """End what is done here, and all that follows, when time is up or at an interrupt."""
        # One that came before this block began must end it as well.
        self.stopped |= INTERRUPTS.noted and _gets_signals()
        try:
            with INTERRUPTS.passing():
                yield
        except (OutOfTimeError, KeyboardInterrupt):
            self.stopped = True
