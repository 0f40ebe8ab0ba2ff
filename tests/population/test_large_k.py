"""Where k is a share of a large population, what is told follows the threshold of disclosure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import fpmonitor
from fpmonitor.disclosure import publishable_coverage
from fpmonitor.policy import HIDE_BELOW, told_from

if TYPE_CHECKING:
    from fpmonitor.log import Log

USERS = 2_000


def log(having: int) -> Log:
    rows = [
        {"user": f"u{i}", "Screen.width": f"{i % 3}"}
        | ({"Navigator.language": f"{i % 2}"} if i < having else {})
        for i in range(USERS)
    ]
    return fpmonitor.read(pl.DataFrame(rows, schema=["user", "Screen.width", "Navigator.language"]))


@pytest.mark.parametrize("having", [60, 1_000, 1_940])
def test_who_lacks_an_api_is_told_whatever_k_is(having: int) -> None:
    """k is a tenth of a million: more than all observed users, of whom many lack an API."""
    decision = log(having).decide(k=100_000, n=10**6, budget=0.1)
    assert decision.coverage is not None
    assert decision.coverage["Navigator.language"] == pytest.approx(having / USERS)
    assert "Navigator.language" in decision.guarantee


@pytest.mark.parametrize("k", [2, 3, 9, 10, 11, 1_000, 100_000])
@pytest.mark.parametrize("few", range(HIDE_BELOW + 2))
def test_no_share_tells_of_fewer_than_the_threshold(k: int, few: int) -> None:
    told = few >= told_from(k)
    assert (publishable_coverage(few, USERS, k) is not None) == told
    assert (publishable_coverage(USERS - few, USERS, k) != 1) == told
