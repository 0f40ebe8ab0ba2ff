"""Decision files: what a command reads, and believes only as far as it follows from itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fpmonitor.decide.decision import Decision
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.level_decision import LevelDecision
from fpmonitor.decide.view_weight import check_level
from fpmonitor.errors import InputError
from fpmonitor.safe_files import read_json

_HINT = "make one with `fpmonitor decide ... -o decision.json`"


def read_any_decision(path: Path) -> Decision:
    """Read a decision file, about sets or about levels, with the sentence that follows from it.

    Raises:
        InputError: No such file, not JSON, not a decision, or one that contradicts itself.
    """
    content = read_json(path, "no readable decision file:", hint=_HINT)
    has_levels = isinstance(content, dict) and "components" in content
    try:
        decision = (LevelDecision if has_levels else Decision).from_json(content)
        check_level(decision)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from error
    return replace(decision, guarantee=guarantee(decision))


def read_decision(path: Path) -> Decision:
    """Read a decision file about sets; errors as of `read_any_decision`."""
    decision = read_any_decision(path)
    if isinstance(decision, LevelDecision):
        raise InputError(f"{path}: decides levels, and not sets", hint="decide without --levels")
    return decision


def read_level_decision(path: Path) -> LevelDecision:
    """Read a decision file about levels; errors as of `read_any_decision`."""
    decision = read_any_decision(path)
    if not isinstance(decision, LevelDecision):
        raise InputError(f"{path}: decides sets, and not levels", hint="leave --levels away")
    return decision
