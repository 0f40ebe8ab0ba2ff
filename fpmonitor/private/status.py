"""Status of a role: the messages of each request by outcome."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 -- msgspec reads the annotation
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.private.store import Outcome  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.private.study import Role  # noqa: TC001 -- msgspec reads the annotation

if TYPE_CHECKING:
    from fpmonitor.private.recipient import Recipient
    from fpmonitor.private.shuffler import Shuffler


@dataclass(frozen=True, slots=True, kw_only=True)
class AskStatus:
    """State of one collection request.

    Attributes
    ----------
    id
        In hexadecimal; null for messages that name no known request.
    round
        Its round; null where it is not known.
    open
        Whether answers are still taken.
    messages
        Number of messages by outcome.
    """

    id: str | None
    round: int | None
    open: bool
    messages: Mapping[Outcome, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStatus:
    """State of a role: numbers only, no content of messages."""

    role: Role
    asks: tuple[AskStatus, ...]


def status_of(role: Shuffler | Recipient) -> RoleStatus:
    """Return the state of a role."""
    store = role.store
    return RoleStatus(
        role=role.ring.role,
        asks=tuple(
            AskStatus(
                id=ask_id.hex() or None,
                round=store.asks[ask_id].round if ask_id in store.asks else None,
                open=ask_id in store.asks and not store.is_closed(ask_id),
                messages=outcomes,
            )
            for ask_id, outcomes in store.tally().items()
        ),
    )
