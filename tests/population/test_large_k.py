"""Where k is a share of a large population, what is told follows the threshold of disclosure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

import fpmonitor
from fpmonitor.disclosure import publishable_coverage
from fpmonitor.errors import PolicyError
from fpmonitor.policy import HIDE_BELOW, HIDE_BELOW_VARIABLE, disclosed_from
from tests.asked import answer_of
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

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
    told = few >= disclosed_from(k)
    assert (publishable_coverage(few, USERS, k) is not None) == told
    assert (publishable_coverage(USERS - few, USERS, k) != 1) == told


@pytest.mark.parametrize(("said", "from_users"), [((), 10), (("--hide-below", "15"), 15)])
@pytest.mark.parametrize("few", [9, 12, 16])
def test_what_is_hidden_follows_its_own_number(
    said: tuple[str, ...],
    from_users: int,
    few: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A tenth of the users is k, of whom 9, 12 or 16 have values of their own."""
    rows = [{"Screen.width": f"{i}" if i < few else "often"} for i in range(400)]
    rows[0]["Navigator.oscpu"] = rows[1]["Navigator.oscpu"] = "x"
    db = stored(tmp_path, [row | {"Navigator.language": "en"} for row in rows])
    words = ("exposure", "Screen.width", "-k", "10%", "-n", "1M", "--db", db)
    [report] = answer_of(capsys, *said, "--for-others", *words)
    assert report["suppressed"] == (few < from_users)
    listed = answer_of(capsys, *said, "--for-others", "db", "apis", "-k", "40", "--db", db)
    assert "Navigator.oscpu" not in json.dumps(listed)
    assert disclosed_from(10**5) == 10, "what one command hides is not what the next one hides"


def test_an_environment_that_names_no_number_hides_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDE_BELOW_VARIABLE, "25")
    assert (disclosed_from(10**5), disclosed_from(4)) == (25, 4)
    for wrong in ("", "1", "-5", "ten", "0x20"):
        monkeypatch.setenv(HIDE_BELOW_VARIABLE, wrong)
        with pytest.raises(PolicyError):
            disclosed_from(100)
