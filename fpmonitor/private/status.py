"""Status of a role: the messages of each request by outcome."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import (
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.policy import upward
from fpmonitor.private.store import Outcome  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.private.study import RecipientRole, Role  # noqa: TC001 -- msgspec reads them

if TYPE_CHECKING:
    from fpmonitor.private.recipient import Recipient
    from fpmonitor.private.shuffler import Shuffler


@dataclass(frozen=True, slots=True, kw_only=True)
class AskStatus:
    """State of one collection request."""

    id: str | None  # In hexadecimal; null for messages that name no known request.
    # epoch, round, recipient: Where it belongs, and who counts the answers; null where they are not
    # known.
    epoch: int | None
    round: int | None
    recipient: RecipientRole | None
    open: bool  # Whether answers are still taken.
    messages: Mapping[Outcome, int]  # Number of messages by outcome.
    # Number of messages below which the shuffler passes nothing on; null at a recipient.
    minimum: int | None
    undelivered: int  # Number of batches that wait for their recipient.
    seconds: int | None  # Time since the request was added; null where it is not known.
    # What the answers of a user may tell, nats; null where that has no limit: some are not
    # randomised, or by a matrix that excludes a value.
    epsilon: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStatus:
    """State of a role: numbers only, no content of messages."""

    role: Role
    asks: tuple[AskStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """Both sides of a request: the shuffler's, and that of the recipient.

    Attributes:
        id, epoch, round, recipient, open, seconds, epsilon: As in `AskStatus`, of the shuffler.
        accepted, repeated, held, minimum, passed_on: Messages at the shuffler: taken, sent again
            and not taken twice, waiting, the minimum, and sent on.
        wanted: Messages that lack to the minimum; 0 once something was passed on.
        undelivered: Batches that wait for the recipient.
        late: Messages that came after the request was closed, which the shuffler refused.
        counted, refused: Messages at the recipient: counted, and arrived without counting.
        missing: Messages that were passed on, and that the recipient does not know of; repeats,
            which are among the refused, make it smaller, even negative.
    """

    epoch: int | None
    round: int | None
    recipient: RecipientRole | None
    open: bool
    epsilon: float | None
    id: str
    seconds: int | None
    accepted: int
    repeated: int
    late: int
    held: int
    minimum: int | None
    wanted: int
    passed_on: int
    undelivered: int
    counted: int
    refused: int
    missing: int


def status_of(role: Shuffler | Recipient) -> RoleStatus:
    """Return the state of a role."""
    from fpmonitor.private.shuffler import Shuffler  # noqa: PLC0415 -- an extra

    store, tally = role.store, role.store.tally()
    waiting: Counter[bytes] = Counter()
    minima: dict[bytes, int] = {}
    if isinstance(role, Shuffler):
        waiting.update(role.unsent().values())
        minima = {ask_id: role.minimum(ask_id) for ask_id in store.asks}
    added, states = store.added(), []
    for ask_id, outcomes in tally.items():
        ask, since = store.asks.get(ask_id), added.get(ask_id)
        states.append(
            AskStatus(
                id=ask_id.hex() or None,
                epoch=None if ask is None else ask.epoch,
                round=None if ask is None else ask.round,
                recipient=None if ask is None else ask.recipient,
                open=ask is not None and not store.is_closed(ask_id),
                messages=outcomes,
                epsilon=None if ask is None else ask.epsilon,
                minimum=minima.get(ask_id),
                undelivered=waiting[ask_id],
                # The clock may be set back.
                seconds=None if since is None else max(int(time.time() - since), 0),
            )
        )
    return RoleStatus(role=role.ring.role, asks=tuple(states))


def reconciled(roles: Sequence[RoleStatus]) -> list[Reconciliation]:
    """Compare what the shuffler passed on with what the recipients know of, a request each."""
    [shuffler] = [one for one in roles if one.role == "shuffler"]
    found = []
    for ask in shuffler.asks:
        if ask.id is None:
            continue
        received: Counter[Outcome] = Counter()
        for one in roles:
            for side in one.asks:
                if side.id == ask.id and one.role == ask.recipient:
                    received.update(side.messages)
        sent = ask.messages.get("passed on", 0)
        # "passed on" is what the shuffler told at the close; a batch again is no arrival.
        arrived = received.total() - received["taken before"] - received["passed on"]
        waiting_messages = ask.messages.get("held", 0)
        found.append(
            Reconciliation(
                epoch=ask.epoch,
                round=ask.round,
                recipient=ask.recipient,
                open=ask.open,
                id=ask.id,
                seconds=ask.seconds,
                epsilon=ask.epsilon,
                accepted=ask.messages.get("accepted", 0),
                repeated=ask.messages.get("replayed", 0),
                late=ask.messages.get("closed ask", 0),
                held=waiting_messages,
                minimum=ask.minimum,
                wanted=0 if sent or not ask.minimum else max(0, ask.minimum - waiting_messages),
                passed_on=sent,
                undelivered=ask.undelivered,
                counted=received["accepted"],
                refused=arrived - received["accepted"],
                missing=sent - arrived,
            )
        )
    return found


def spent(asks: Sequence[Reconciliation]) -> str:
    """Say what the randomised answers of a user may tell together; empty where there are none.

    The levels of answers to all requests add up, over APIs, rounds and epochs.
    """
    levels = [each.epsilon for each in asks if each.epsilon is not None]
    if not levels:
        return ""
    epochs = len({each.epoch for each in asks if each.epsilon is not None})
    endless = len(asks) - len(levels)
    also = f"; {endless:,} more have no finite epsilon" if endless else ""
    return (
        f"a user who answers {len(levels):,} randomised requests, of {epochs:,} epochs, has "
        f"spent epsilon {upward(sum(levels), 3)}{also}"
    )
