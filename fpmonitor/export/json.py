"""Allow/block list as JSON, for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fpmonitor.export.exporter import PlainExporter
from fpmonitor.export.lists import api_actions
from fpmonitor.safe_files import untyped

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision

_MEMBERS = ("guarantee", "policy", "allow", "block", "allowed_sets", "blocked_sets")


def write(decision: Decision) -> str:
    """Write the list as JSON: what one site may read together, and every certified combination."""
    actions = api_actions(decision)
    content = {
        "guarantee": decision.guarantee,
        "policy": untyped(decision.policy),
        "allow": [entry.api for entry in actions if entry.action == "allow"],
        "block": [entry.api for entry in actions if entry.action == "block"],
        "no_evidence": dict(decision.no_evidence),
        "allowed_sets": [list(apis) for apis in decision.allow],
        "blocked_sets": [list(apis) for apis in decision.block],
    } | ({"names": dict(decision.names)} if decision.names else {})
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def check(text: str) -> list[str]:
    """Problems of a list."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [f"not JSON: {error}"]
    if not isinstance(content, dict):
        return ["not a JSON object"]
    return [f"no member {name!r}" for name in _MEMBERS if name not in content]


JSON = PlainExporter(
    name="json",
    summary="one action per API and all combinations, for programs",
    write=write,
    check=check,
)
