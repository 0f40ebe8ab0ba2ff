"""Decision files: what a command reads, and believes only as far as it follows from itself."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fpmonitor.decide.decision import Decision, as_now
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.view_weight import check_level
from fpmonitor.errors import InputError
from fpmonitor.safe_files import json_of, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KIND = "no readable decision file:"
_HINT = "make one with `fpmonitor decide ... -o decision.json`"
_UNREAD, NOT_TOLD = "is read by nobody", "is not told"
_NEWER = "decide again, or read it with the version that wrote it"


def read_any_decision(path: Path) -> Decision:
    """Read a decision file, about sets or about levels, with the sentence that follows from it.

    Raises:
        InputError: No such file, not JSON, not a decision, one that contradicts itself, or one with
            a member that says nothing here.
    """
    return _decision_of(_bytes_of(path), path)


def _bytes_of(path: Path) -> bytes:
    return read_bytes(path, _KIND, hint=_HINT)


def _decision_of(file: bytes, path: Path) -> Decision:
    content = json_of(file, path, _KIND, hint=_HINT)
    try:
        # Before it is read: of levels, files of before have another form.
        content = as_now(content)
        decision = Decision.from_json(content)
        check_level(decision)
        _check_members(content, decision)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from error
    # The sentence is made anew, so a file cannot promise what its members do not say.
    return replace(decision, guarantee=guarantee(decision))


def _check_members(content: Any, decision: Decision) -> None:
    for member, how, value in otherwise(content, decision.to_json()):
        if how == _UNREAD and value:  # no, nothing and none are what is not told
            raise InputError(f"not a decision: `{member}` {how}", hint=_NEWER)


def otherwise(content: Any, written: Any, of: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield where a file is not as it would be written: the member, how, and what it holds.

    A member that it lacks is `NOT_TOLD`: files of before tell fewer.
    """
    if isinstance(content, dict) and isinstance(written, dict):
        for name, value in content.items():
            path = f"{of}.{name}".removeprefix(".")
            if name in written:
                yield from otherwise(value, written[name], path)
            else:
                yield path, _UNREAD, value
        for name in written.keys() - content.keys():
            yield f"{of}.{name}".removeprefix("."), NOT_TOLD, None
    elif isinstance(content, list) and isinstance(written, list) and len(content) == len(written):
        if are_same_numbers(content, written):
            return
        for each, other in zip(content, written, strict=True):
            yield from otherwise(each, other, of)
    # True equals 1 in Python, and is no number in a file.
    elif content != written or isinstance(content, bool) != isinstance(written, bool):
        yield of, "is not as it is written", content


def are_same_numbers(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two lists hold nothing but the same numbers, none of which is true or false.

    A proof has some ten thousand: one by one they took a quarter of the time of a gate.
    """
    return [*one] == [*other] and {*map(type, one), *map(type, other)} <= {int, float}


def refuse_parts(path: Path, decision: Decision, *, hint: str) -> None:
    """Refuse to count users for a decision about users of whom nobody saw a whole record.

    Raises:
        InputError: It is one.
    """
    if decision.parts is not None:
        raise InputError(
            f"{path}: follows from answers of which the curator has the counts", hint=hint
        )


def read_decision(path: Path) -> Decision:
    """Read a decision file about sets; errors as of `read_any_decision`."""
    return _about_sets(read_any_decision(path), path)


def read_with_digest(path: Path) -> tuple[Decision, str]:
    """Read a decision file about sets, once, with the SHA-256 of what was read."""
    file = _bytes_of(path)
    return _about_sets(_decision_of(file, path), path), hashlib.sha256(file).hexdigest()


def _about_sets(decision: Decision, path: Path) -> Decision:
    if decision.components:
        raise InputError(f"{path}: decides levels, and not sets", hint="decide without --levels")
    return decision
