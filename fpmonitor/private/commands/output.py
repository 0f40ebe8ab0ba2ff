"""What the commands on private collection print and write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fpmonitor.safe_files import read_json, typed

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.private.recipient import Recipient
    from fpmonitor.private.selection import Selection
    from fpmonitor.private.study import CollectionRequest


def counts_of(role: Recipient, ask: CollectionRequest, *, unsafe: bool) -> dict[str, Any]:
    """Return the counts of a request; of groups smaller than k only their number."""
    k = 1 if unsafe else role.store.study.k
    sets = []
    for apis, counts in role.counts(ask).items():
        users = sum(counts.values())
        groups = sorted(counts.items(), key=lambda group: (-group[1], group[0]))
        randomised = [ask.randomise[api].mechanism for api in apis if api in ask.randomise]
        sets.append(
            {
                "apis": list(apis),
                "randomised": randomised[0] if randomised else None,
                "users": users if users >= k else None,
                "groups": [
                    {"tokens": list(tokens), "users": size} for tokens, size in groups if size >= k
                ],
                "smaller_groups": sum(size < k for _, size in groups),
            }
        )
    return {
        "ask": ask.id.hex(),
        "epoch": ask.epoch,
        "round": ask.round,
        "messages": dict(role.store.tally()[ask.id]),
        "sets": sets,
    }


def read_selection(path: Path) -> Selection:
    """Read what `private select` printed as JSON."""
    from fpmonitor.private.selection import Selection  # noqa: PLC0415 -- slow to load

    content = read_json(path, "selection", hint="`private select --format json` writes one")
    return typed(content, Selection, f"a selection in {path}")
