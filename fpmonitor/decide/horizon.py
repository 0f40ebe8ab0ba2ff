"""Repeated checks of one decision: how they share its delta.

A check that is made again and again on new data is wrong some day, if each is allowed to be wrong
with probability delta. Over a horizon of N checks each gets delta / N: by the union bound all N
hold together with probability at least 1 - delta, however much their data have in common. The next
N checks are another horizon, with a delta of their own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.errors import PolicyError

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision

MAX_HORIZON = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSlot:
    """Slot of a check among those that share a delta.

    Attributes
    ----------
    check
        Number within its horizon, from 1 to `horizon`.
    horizon
        Number of checks that share the delta.
    turn
        Which horizon it is, from 1.
    delta
        Tolerated probability of error of this check.
    """

    check: int
    horizon: int
    turn: int
    delta: float


def share_delta(decision: Decision, horizon: int) -> Decision:
    """Decision whose delta is the share of one of `horizon` checks.

    Raises
    ------
    PolicyError
        The horizon is out of its range, or the decision is exact and has no delta.
    """
    if isinstance(horizon, bool) or not 1 <= horizon <= MAX_HORIZON:
        raise PolicyError("horizon", f"must lie between 1 and {MAX_HORIZON}, got {horizon}")
    delta = decision.policy.delta
    if delta is None:
        raise PolicyError(
            "horizon",
            "a decision on the observed users is exact, so its checks share nothing",
            hint="omit --horizon",
        )
    return decision.with_delta(delta / horizon)


def slot_of(number: int, shared: Decision, horizon: int) -> CheckSlot:
    """Return the slot of the check with a number that counts on from horizon to horizon, from 1."""
    delta = shared.policy.delta
    turn, check = divmod(number - 1, horizon)
    return CheckSlot(check=check + 1, horizon=horizon, turn=turn + 1, delta=delta or 0.0)


def identity_of(decision: Decision) -> str:
    """Digest of what a decision says: its policy and its lists."""
    content = decision.to_json()
    for name in ("seconds", "evaluated"):
        content.pop(name)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
