"""What a list leaves in a real browser lies within what `preview` says of it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from benchmarks.recollection import (
    BLOCKED,
    Place,
    compare,
    decision_of,
    in_chromium,
    in_firefox,
    monitor_of,
    serving,
    settings,
)

if TYPE_CHECKING:
    from pathlib import Path

VISITORS = 12


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.parametrize(
    ("browser", "program"), [("chromium", "chromium"), ("firefox", "firefox-esr")]
)
def test_recollected_exposures_lie_within_the_limits_of_preview(
    browser: str, program: str, tmp_path: Path
) -> None:
    """A small part of `benchmarks/recollection.py`: lists that need no other product."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    place = Place()
    with serving(place) as port:
        if browser == "chromium":
            visitors = settings(VISITORS)
            visits = in_chromium(place, port, tmp_path, visitors, modules=None, ublock=None)
        else:
            visits = in_firefox(place, port, tmp_path, settings(VISITORS), ublock=None)
    before = monitor_of(visits.pop("before.localhost"), tmp_path / "before.duckdb")
    assert len(visits) == 3 * len(BLOCKED)
    for host, reports in visits.items():
        product, blocked, _ = host.split(".")
        after = monitor_of(reports, tmp_path / f"{host}.duckdb")
        assert compare(product, decision_of(BLOCKED[blocked]), before, after) == 0, host
