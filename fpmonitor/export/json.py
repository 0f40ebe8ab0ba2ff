"""Allow/block list as JSON, for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fpmonitor.export.lists import api_actions

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision


def export_json(decision: Decision) -> str:
    """Write the list as JSON: what one site may read together, and every certified combination."""
    actions = api_actions(decision)
    content = {
        "guarantee": decision.guarantee,
        "policy": decision.policy.to_json(),
        "allow": [entry.api for entry in actions if entry.action == "allow"],
        "block": [entry.api for entry in actions if entry.action == "block"],
        "allowed_sets": [list(apis) for apis in decision.allow],
        "blocked_sets": [list(apis) for apis in decision.block],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
