"""What the command answers, and how it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fpmonitor.cli import run

if TYPE_CHECKING:
    import pytest


def answer_of(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """Answer of a command, as JSON, as it is where it is no terminal that asks."""
    capsys.readouterr()
    form = () if "--format" in words else ("--format", "json")
    assert run([*words, *form]) == code
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Line in which a command says that it cannot do what was asked."""
    capsys.readouterr()
    assert run([*words]) not in {0, 1}
    said = capsys.readouterr().err
    assert len(said.strip().splitlines()) == 1
    return said
