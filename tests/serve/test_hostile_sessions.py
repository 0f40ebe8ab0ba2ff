"""Sessions that a generator makes from seeds: nothing is lost, doubled, forged or given away."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from fpmonitor.serve import app
from fpmonitor.serve.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HOSTILE = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "hostile.py"))
SEEDS = range(100, 104)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hostile_session_shows_no_fault(seed: int) -> None:
    made = HOSTILE["run_seed"](seed)
    assert made.steps
    assert made.faults == []


def _lose(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge what is not on disk."""

    async def append(self: Spool, source: str, contents: Iterable[Any]) -> None:
        del self, source, contents

    patch.setattr(Spool, "append", append)


def _forge(patch: pytest.MonkeyPatch) -> None:
    """Keep records as those of another key."""
    whole = Spool.append

    async def append(self: Spool, source: str, contents: Iterable[Any]) -> None:
        del source
        forged = [msgspec.structs.replace(one, source="backend") for one in contents]
        await whole(self, "backend", forged)

    patch.setattr(Spool, "append", append)


def _tell(patch: pytest.MonkeyPatch) -> None:
    """Tell strangers what waits."""
    patch.setattr(app.Door, "refusal", lambda _self, _request: None)


@pytest.mark.parametrize(
    ("plant", "said"),
    [(_lose, "times in the database"), (_forge, "stored as of backend"), (_tell, "is told")],
)
def test_the_sessions_see_a_fault_of_each_kind(
    plant: Callable[[pytest.MonkeyPatch], None], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found: list[str] = []
    for seed in range(100, 140):
        found += HOSTILE["run_seed"](seed).faults
        if any(said in fault for fault in found):
            return
    pytest.fail(f"not seen; only {found}")
