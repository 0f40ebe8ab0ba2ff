"""How long a test waits for what must come: nothing follows from how busy the machine is."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def patience(seconds: float) -> float:
    """Return seconds that are as good as these where no other process wants the cores."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait(look: Callable[[], Any], seconds: float = 30) -> Any:
    """Look until there is something, and return it; fail after so many seconds of an idle machine.

    The machine is looked at each time: what is busy only later has its time, too.
    """
    began = time.monotonic()
    while not (found := look()):
        if time.monotonic() - began > patience(seconds):
            pytest.fail("it never came")
        time.sleep(0.025)
    return found
