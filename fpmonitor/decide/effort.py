"""How long a search may go on, and what it tells meanwhile."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class OutOfTimeError(Exception):
    """A search ran out of its time; `Effort.until_stopped` ends it."""


@dataclass(slots=True, kw_only=True)
class Effort:
    """What the searches of one decision share.

    Attributes
    ----------
    deadline
        Time of the monotonic clock, seconds, at which all end.
    progress
        Told now and then in words how far they are.
    stopped
        Whether they were ended early; whatever begins later ends at its first look.
    """

    deadline: float = float("inf")
    progress: Callable[[str], None] | None = None
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

    def check(self, told: str) -> None:
        """Tell how far a search is, and end it when it must end.

        Raises
        ------
        OutOfTimeError
            It must.
        """
        if self.progress is not None:
            self.progress(told)
        if self.stopped or time.monotonic() >= self.deadline:
            raise OutOfTimeError

    @contextmanager
    def within(self, share: float) -> Iterator[None]:
        """End what is done here, and nothing else, after so large a share of the time left."""
        deadline, self.deadline = self.deadline, self.after(share)
        try:
            yield
        except OutOfTimeError:
            if self.stopped:
                raise
        finally:
            self.deadline = deadline

    @contextmanager
    def until_stopped(self) -> Iterator[None]:
        """End what is done here, and all that follows, when time is up or at an interrupt."""
        try:
            yield
        except (OutOfTimeError, KeyboardInterrupt):
            self.stopped = True
