"""What this command speaks of."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fpmonitor.unit import Unit

# What is counted, as far as it is known: set where a database or a decision is opened.
UNIT: ContextVar[Unit] = ContextVar("UNIT", default="user")
