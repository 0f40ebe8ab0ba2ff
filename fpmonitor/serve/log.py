"""The log of the service: one line of JSON an event."""

from __future__ import annotations

import json
import logging

LOG = logging.getLogger("fpmonitor.serve")


def log(event: str, **facts: object) -> None:
    """Write one line of JSON; callers give no values, ids or keys."""
    LOG.info(json.dumps({"event": event, **facts}))
