"""The gate as a JavaScript module: the answers of `Decision.verdict`, without dependencies."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from fpmonitor.errors import InputError
from fpmonitor.export.exporter import PlainExporter, PlainList
from fpmonitor.safe_files import strict_json, typed

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision

_PLACE = "/* lists of the decision */ null"
_LISTS = ("allow", "block", "undecided")


def _write(decision: Decision) -> str:
    """Write the module with the lists of the decision in it, its unions among them."""
    decision = decision.with_unions_listed()
    content = {
        "policy": {"candidates": list(decision.policy.candidates)},
        "complete": decision.complete,
        **{name: [list(apis) for apis in getattr(decision, name)] for name in _LISTS},
    }
    for name in ("names", "no_evidence"):
        if found := getattr(decision, name):
            content[name] = dict(found)
    return _code().replace(_PLACE, script_safe(json.dumps(content, separators=(",", ":"))))


def _check(text: str) -> list[str]:
    """Problems of a module: code that is not ours, or lists that are not lists."""
    try:
        _lists_of(text)
    except InputError as error:
        return [error.message]
    return []


class _Lists(msgspec.Struct, forbid_unknown_fields=True):
    """What a module holds: the code reads more members than are written, such as unions."""

    policy: dict[str, list[str]]
    complete: bool
    allow: list[list[str]]
    block: list[list[str]]
    undecided: list[list[str]]
    names: dict[str, str] = {}
    no_evidence: dict[str, Any] = {}


def _lists_of(text: str) -> _Lists:
    before, after = _code().split(_PLACE)
    # Of other code nobody can tell what it answers.
    if not (text.startswith(before) and text.endswith(after)):
        raise InputError("the code is not the one of this version of fpmonitor")
    try:
        content = strict_json(text[len(before) : -len(after)])
    except (ValueError, RecursionError) as error:
        raise InputError(f"not the lists of a decision: {error}") from error
    return typed(content, _Lists, "a gate in JavaScript")


def _read(text: str) -> PlainList:
    """Read a module: a site may read any allowed set, and a gate refuses all else."""
    found = _lists_of(text)
    return PlainList(
        # Where nothing is allowed, a site still reads the empty set.
        together=tuple(dict.fromkeys(tuple(sorted({*apis})) for apis in found.allow or [[]])),
        named=frozenset(found.policy.get("candidates", ())),
        names=found.names,
    )


def _code() -> str:
    return (resources.files("fpmonitor.export") / "gate.js").read_text(encoding="utf-8")


def script_safe(text: str) -> str:
    """JSON that cannot end a script element; json.dumps escapes all that is not ASCII."""
    return text.replace("<", "\\u003c")


GATE_JS = PlainExporter(
    name="gate-js",
    summary="JavaScript module that answers what a site may read next",
    write=_write,
    check=_check,
    read=_read,
)
