"""Others cannot tell nobody from one to k - 1 users: a search finds no question that does."""

from __future__ import annotations

import runpy
from pathlib import Path

FOUND = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "differencing.py"))
SEARCH = FOUND["search"]


def test_no_question_for_others_tells_few_users_from_nobody() -> None:
    found = SEARCH(11, ["of each kind"], [9], 12)
    assert found["answered"] >= 10
    assert found["told_apart"] == []


def test_a_release_does_not_tell_rare_values_from_none() -> None:
    """Its rows do not, nor does its manifest: what it lacks is told as of k - 1 users."""
    found = SEARCH(11, ["a value each"], [9], 0, also=FOUND["RELEASES"], beside=FOUND["VALUELESS"])
    assert found["answered"] == 4
    assert found["told_apart"] == []


def test_the_search_tells_them_apart_where_the_owner_asks() -> None:
    found = SEARCH(11, ["of each kind"], [9], 3, audience="owner")
    assert found["told_apart"]
