"""From a decision to one action per API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision


@dataclass(frozen=True, slots=True)
class ApiAction:
    """What a product does with one API, and why."""

    api: str
    action: Literal["allow", "block"]
    reason: str


def api_actions(decision: Decision) -> list[ApiAction]:
    """Return one action per candidate: the recommended set is allowed, all others are blocked.

    One site may read subsets of one allowed set only, so a list without state must keep to one.
    """
    return [_action(decision, api) for api in decision.policy.candidates]


def _action(decision: Decision, api: str) -> ApiAction:
    if api in decision.recommended:
        return ApiAction(api, "allow", "in the recommended set")
    verdict, _ = decision.verdict([api])
    if verdict == "block":
        return ApiAction(api, "block", "above the budget alone")
    if verdict == "undecided":
        return ApiAction(api, "block", "not certified alone")
    together, because = decision.verdict([*decision.recommended, api])
    if together == "block":
        return ApiAction(api, "block", f"above the budget together with {_others(because, api)}")
    return ApiAction(api, "block", "not certified together with the recommended set")


def _others(apis: tuple[str, ...], api: str) -> str:
    return ", ".join(other for other in apis if other != api) or "the recommended set"
