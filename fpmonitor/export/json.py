"""List as JSON, for programs: what is exposed, what withheld."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from fpmonitor.decide.decision import Scope
from fpmonitor.errors import InputError
from fpmonitor.export.exporter import PlainExporter, PlainList
from fpmonitor.export.headline import scope_of
from fpmonitor.export.lists import api_actions
from fpmonitor.safe_files import strict_json, typed, untyped
from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.decide.decision import Decision

_MEMBERS = ("guarantee", "policy", "exposed", "withheld", "allowed_sets", "blocked_sets")
_OLD_WORDS = {"allow": "exposed", "block": "withheld"}


def _write(decision: Decision) -> str:
    """Write the list as JSON: what one site may read together, and every certified combination."""
    actions = api_actions(decision)
    content = {
        "guarantee": decision.guarantee,
        "scope": scope_of(decision),
        **_about(decision, sorted({entry.means for entry in actions})),
        "policy": {
            name: value
            for name, value in untyped(decision.policy).items()
            if name == "sample" or name in decision.policy.to_json()
        },
        "exposed": [entry.api for entry in actions if not entry.is_withheld],
        "withheld": [entry.api for entry in actions if entry.is_withheld],
        "no_evidence": dict(decision.no_evidence),
        "allowed_sets": [list(apis) for apis in decision.allow],
        "blocked_sets": [list(apis) for apis in decision.block],
    } | ({"names": dict(decision.names)} if decision.names else {})
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _about(decision: Decision, about: Sequence[str]) -> dict[str, Any]:
    """Return what a decision is about, as its file says it, of the vocabulary that is known now.

    How many APIs that was on its day, only the database can prove.
    """
    unions = [untyped(each) for each in decision.union_with]
    known = len(known_apis())
    told = decision.scope or Scope(about=tuple(about), vocabulary=known)
    found: dict[str, Any] = untyped(replace(told, vocabulary=known))
    if told.window_days is None:
        del found["window_days"]
    return found | ({"union_with": unions} if unions else {})


def _check(text: str) -> list[str]:
    """Problems of a list."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:  # "[[[[..." of anybody
        return [f"not JSON: {error}"]
    if not isinstance(content, dict):
        return ["not a JSON object"]
    return [f"no member {name!r}" for name in _MEMBERS if name not in content]


class _Members(msgspec.Struct):
    """What is read of a list."""

    exposed: list[str]
    withheld: list[str]
    no_evidence: dict[str, str] = {}
    allowed_sets: list[list[str]] = []
    names: dict[str, str] = {}


def _read(text: str) -> PlainList:
    """Read a list, also one of before: programs may carry out `exposed`, or an allowed set."""
    try:
        content = strict_json(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from error
    if isinstance(content, dict) and "exposed" not in content:
        content = {_OLD_WORDS.get(name, name): value for name, value in content.items()}
    found = typed(content, _Members, "a list in JSON")
    sets = (found.exposed, *found.allowed_sets)
    together = dict.fromkeys(tuple(sorted({*apis})) for apis in sets)
    withheld = {*found.withheld, *found.no_evidence}
    both = sorted({*found.exposed} & withheld)
    return PlainList(
        together=tuple(together),
        named=frozenset({*found.exposed, *withheld}),
        problems=tuple(f"{api}: exposed and withheld" for api in both),
        names=found.names,
    )


JSON = PlainExporter(
    name="json",
    summary="one outcome per API and all combinations, for programs",
    write=_write,
    check=_check,
    read=_read,
)
