"""Allow/block list as JSON, for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from fpmonitor.errors import InputError
from fpmonitor.export.exporter import PlainExporter, PlainList
from fpmonitor.export.headline import scope_of
from fpmonitor.export.lists import api_actions
from fpmonitor.safe_files import typed, untyped

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision

_MEMBERS = ("guarantee", "policy", "allow", "block", "allowed_sets", "blocked_sets")


def _write(decision: Decision) -> str:
    """Write the list as JSON: what one site may read together, and every certified combination."""
    actions = api_actions(decision)
    content = {
        "guarantee": decision.guarantee,
        "scope": scope_of(decision),
        "policy": {
            name: value
            for name, value in untyped(decision.policy).items()
            if (name, value) not in {("cohorts", None), ("visits", "last")}
        },
        "allow": [entry.api for entry in actions if entry.action == "allow"],
        "block": [entry.api for entry in actions if entry.action == "block"],
        "no_evidence": dict(decision.no_evidence),
        "allowed_sets": [list(apis) for apis in decision.allow],
        "blocked_sets": [list(apis) for apis in decision.block],
    } | ({"names": dict(decision.names)} if decision.names else {})
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _check(text: str) -> list[str]:
    """Problems of a list."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [f"not JSON: {error}"]
    if not isinstance(content, dict):
        return ["not a JSON object"]
    return [f"no member {name!r}" for name in _MEMBERS if name not in content]


class _Members(msgspec.Struct):
    """What is read of a list."""

    allow: list[str]
    block: list[str]
    no_evidence: dict[str, str] = {}
    allowed_sets: list[list[str]] = []


def _read(text: str) -> PlainList:
    """Read a list: programs may carry out `allow`, or any of the sets that it says are allowed.

    Raises
    ------
    InputError
        It is not such a list.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from error
    found = typed(content, _Members, "a list in JSON")
    together = dict.fromkeys(tuple(sorted({*apis})) for apis in (found.allow, *found.allowed_sets))
    both = sorted({*found.allow} & {*found.block, *found.no_evidence})
    return PlainList(
        together=tuple(together),
        named=frozenset({*found.allow, *found.block, *found.no_evidence}),
        problems=tuple(f"{api}: in `allow` and in `block`" for api in both),
    )


JSON = PlainExporter(
    name="json",
    summary="one action per API and all combinations, for programs",
    write=_write,
    check=_check,
    read=_read,
)
